// Encryption of one message by the codec and by libsodium; each verified against the other.
#include <benchmark/benchmark.h>
#include <sodium.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tzmark/secretbox.h"

namespace tzmark::bench {
namespace {

unsigned char* raw(std::vector<std::byte>& bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

struct Message {
  explicit Message(std::size_t size) : plaintext(size), ciphertext(size), opened(size), mac(kMacBytes) {
    std::mt19937_64 random(1);
    std::ranges::generate(plaintext, [&] { return static_cast<std::byte>(random()); });
    std::ranges::generate(nonce, [&] { return static_cast<unsigned char>(random()); });
    is_good = sodium_init() >= 0 &&
              crypto_secretbox_detached(raw(ciphertext), raw(mac), raw(plaintext), size, nonce.data(), key.data()) == 0;
    std::vector<std::byte> by_codec(size);
    std::vector<std::byte> mac_by_codec(kMacBytes);
    seal_message(key, nonce, plaintext, by_codec, mac_by_codec);
    is_good = is_good && by_codec == ciphertext && mac_by_codec == mac &&
              open_message(key, nonce, mac, ciphertext, opened) && opened == plaintext;
  }

  Key key = key_from_hex(std::string(64, '7'));
  Nonce nonce{};
  std::vector<std::byte> plaintext, ciphertext, opened, mac;
  bool is_good = false;
};

template <class Function>
void measure_message(benchmark::State& state, Function function) {
  Message message(static_cast<std::size_t>(state.range(0)));
  if (!message.is_good) return state.SkipWithError("the codec and libsodium differ");
  for ([[maybe_unused]] auto iteration : state) {
    function(message);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
  state.SetLabel(std::string(secretbox_kernel()));
}

void measure_seal(benchmark::State& state) {
  measure_message(state, [](Message& m) { seal_message(m.key, m.nonce, m.plaintext, m.ciphertext, m.mac); });
}

void measure_seal_sodium(benchmark::State& state) {
  measure_message(state, [](Message& m) {
    crypto_secretbox_detached(raw(m.ciphertext), raw(m.mac), raw(m.plaintext), m.plaintext.size(), m.nonce.data(),
                              m.key.data());
  });
}

void measure_open(benchmark::State& state) {
  measure_message(
      state, [](Message& m) { benchmark::DoNotOptimize(open_message(m.key, m.nonce, m.mac, m.ciphertext, m.opened)); });
}

void measure_open_sodium(benchmark::State& state) {
  measure_message(state, [](Message& m) {
    benchmark::DoNotOptimize(crypto_secretbox_open_detached(raw(m.opened), raw(m.ciphertext), raw(m.mac),
                                                            m.ciphertext.size(), m.nonce.data(), m.key.data()));
  });
}

// By size, so that both sides of a ratio come from about the same moment.
[[maybe_unused]] const bool kMessagesRegistered = [] {
  for (const std::int64_t size : {64, 128, 256, 512, 1024, 4096, 65536, 2 << 20}) {
    benchmark::RegisterBenchmark("seal_message", measure_seal)->Arg(size);
    benchmark::RegisterBenchmark("seal_message_libsodium", measure_seal_sodium)->Arg(size);
    benchmark::RegisterBenchmark("open_message", measure_open)->Arg(size);
    benchmark::RegisterBenchmark("open_message_libsodium", measure_open_sodium)->Arg(size);
  }
  return true;
}();

}  // namespace
}  // namespace tzmark::bench
