#!/usr/bin/env python3
"""A server on loopback that passes connections to another one, and delays every byte by half of a round trip each way.

It stands in for a network with that round trip, where the kernel has no netem. Only the time of travel is imitated:
nothing limits the rate but this program, and what is on the way is kept in memory.

usage: delay_proxy.py PORT TO_PORT ROUND_TRIP_MS
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PIECE_BYTES = 256 << 10
Piece = tuple[float, bytes]  # when it arrives; no bytes: the end


async def pass_on(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, delay_s: float
) -> None:
    """Ends when either side has ended."""
    on_the_way: asyncio.Queue[Piece] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    async def depart() -> None:
        data = b"?"
        while data:
            try:
                data = await source.read(PIECE_BYTES)
            except OSError:
                data = b""
            on_the_way.put_nowait((loop.time() + delay_s, data))

    departing = asyncio.create_task(depart())
    try:
        while True:
            arrival_s, data = await on_the_way.get()
            await asyncio.sleep(max(0.0, arrival_s - loop.time()))
            if not data:
                break
            sink.write(data)
            await sink.drain()
    except OSError:
        pass
    finally:
        departing.cancel()
        sink.close()


async def serve(
    port: int, to_port: int, delay_s: float, started: threading.Event
) -> None:
    async def connected(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # The handshake of the connection takes a round trip as well.
        await asyncio.sleep(2 * delay_s)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", to_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            pass_on(reader, far_writer, delay_s), pass_on(far_reader, writer, delay_s)
        )

    server = await asyncio.start_server(
        connected, "127.0.0.1", port, limit=4 * PIECE_BYTES, backlog=512
    )
    started.set()
    async with server:
        await server.serve_forever()


@contextmanager
def running(port: int, to_port: int, round_trip_s: float) -> Iterator[None]:
    """Runs one in a thread of this process, which ends with the process."""
    started = threading.Event()
    work = serve(port, to_port, round_trip_s / 2, started)
    threading.Thread(target=asyncio.run, args=(work,), daemon=True).start()
    if not started.wait(10):
        raise TimeoutError("the proxy has not started")
    yield


if __name__ == "__main__":
    asyncio.run(
        serve(
            int(sys.argv[1]),
            int(sys.argv[2]),
            float(sys.argv[3]) / 2000,
            threading.Event(),
        )
    )
