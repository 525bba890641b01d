// The codec as a subject, and raw transfers: the same blocks through the same File without the codec.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harness/fio.h"
#include "subjects/content.h"
#include "subjects/subject.h"
#include "tzmark/device.h"
#include "tzmark/reader.h"

namespace tzmark::bench {

// How data is transferred.
struct IoSettings {
  std::string io = "auto";
  std::uint64_t block_bytes = 0;  // 0: what suits the path
  unsigned queue_depth = 0;       // over all threads; 0: the default of the path
  unsigned threads = 0;           // 0: one per core
  // Writes are as fast as a program makes them that syncs its file: paths through the page cache begin to write to the
  // device at once. Otherwise such writes take the time of the page cache alone, and all of the device's comes after.
  bool syncs = true;
};

struct ReadSettings {
  Verification verification = Verification::kNone;
  Target target = Target::kHugePages;
  Cache cache = Cache::kWarm;
  DeviceCompute compute = DeviceCompute::kAuto;  // with target kDevice
  // Reads this many copies of the file in one run, so that a short read fills a measurable time. Reading the same file
  // repeatedly would be served from the CPU caches.
  unsigned copies = 1;
};

using SharedContent = std::shared_ptr<const TensorContent>;

// Opens the file and reads every tensor into new memory or a sink.
std::unique_ptr<Subject> codec_read(Workplace& place, SharedContent content, const FileFormat& stored,
                                    const IoSettings& moving, const ReadSettings& reading);
// Writes a new file from host or GPU memory and closes it; the fsync is timed separately.
std::unique_ptr<Subject> codec_write(Workplace& place, SharedContent content, const FileFormat& stored,
                                     const IoSettings& moving, bool from_device = false);
// Opens the file: reads and checks its index.
std::unique_ptr<Subject> codec_open(Workplace& place, SharedContent content, const FileFormat& stored,
                                    const IoSettings& moving);

// Reads every byte of the content once, in blocks, on as many threads as the codec uses. The blocks are aligned in the
// file and in memory; with `as`, they are those of the tensors in a file that the codec has written in this format, and
// each tensor begins at a multiple of 64 bytes in memory. Throws kUsage if `as` is encrypted or the target is a sink.
std::unique_ptr<Subject> raw_read(Workplace& place, SharedContent content, const IoSettings& moving, Target target,
                                  Cache cache, std::optional<FileFormat> as = {});
// Writes the same bytes into a new file; with `as`, to where the codec writes them, and nothing else.
std::unique_ptr<Subject> raw_write(Workplace& place, SharedContent content, const IoSettings& moving,
                                   std::optional<FileFormat> as = {});

// Transfers as fio makes them, to compare with it: see harness/fio.h. REQUIRES: has_fio_job.
std::unique_ptr<Subject> raw_as_fio(Workplace& place, SharedContent content, FileOperation operation,
                                    const IoSettings& moving, Pages pages);
// The job of fio that does the same. Throws TZE-AVL-001 if the content has less than one block per transfer in flight.
FioJob as_fio_job(const TensorContent& content, FileOperation operation, const IoSettings& moving, unsigned depth);

// Raw transfers between a file and GPU memory, with an attestation of their route.
std::unique_ptr<Subject> device_read(Workplace& place, SharedContent content, const IoSettings& moving);
std::unique_ptr<Subject> device_write(Workplace& place, SharedContent content, const IoSettings& moving);

// Runs a pass over a path that moves GPU memory under observation, and records its transfer route in the description.
void attest(RunDescription& description, const std::function<void()>& pass);

// Returns whether fio_run and raw_as_fio make the same transfers as a raw run over the path.
bool has_fio_job(std::string_view io);

HostMemory new_memory(std::size_t bytes, Pages pages);

// Resolve the defaults: threads, and queue depth over all threads.
unsigned thread_count(unsigned threads);
unsigned queue_depth(const File& file, const IoSettings& moving);
// The same of the bytes of a transfer.
std::uint64_t block_bytes(const File& file, const IoSettings& moving);

// Times what makes a written and closed file durable. All subjects are timed in this order, because other programs
// close their files themselves: with a file system that flushes at the close, an fsync before it would hide its cost.
void sync_written(const std::string& file_name, Sample& sample);
// Times creating, filling and closing a file, and separately its fsync. Removes an old file of that name first.
Sample timed_write(const Workplace& place, const std::string& file_name, std::uint64_t bytes, const IoSettings& moving,
                   const std::function<void(File&)>& fill);

// Brings the file into the given cache state, then touches as much free memory as the run takes, and returns the
// resident share that is left. Throws TZE-AVL-001 if that state is impossible here, so that no warm read is reported as
// cold. memory_bytes: what the run takes.
double make_cache_state(const std::string& file_name, Cache cache, std::uint64_t memory_bytes = 0);

}  // namespace tzmark::bench
