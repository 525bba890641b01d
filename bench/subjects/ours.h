// The codec as a subject, and the raw path below it: the same transfers through the same File, without a codec.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "subjects/content.h"
#include "subjects/subject.h"
#include "tzmark/device.h"
#include "tzmark/reader.h"

namespace tzmark::bench {

// How bytes are moved.
struct IoSettings {
  std::string io = "auto";
  std::uint64_t block_bytes = 2 << 20;
  unsigned queue_depth = 0;  // over all threads; 0: what suits the path
  unsigned threads = 0;      // 0: one a core
};

struct ReadSettings {
  Verification verification = Verification::kNone;
  Target target = Target::kHugePages;
  Cache cache = Cache::kWarm;
  DeviceCompute compute = DeviceCompute::kAuto;  // with target kDevice
  // So many copies of the file in one run, one after the other: for what is too quick for one clock reading. The same
  // file again and again would lie in the CPU's caches.
  unsigned copies = 1;
};

using SharedContent = std::shared_ptr<const TensorContent>;

// Opens the file and reads every tensor, into memory of its own or to a sink.
std::unique_ptr<Subject> codec_read(Workplace& place, SharedContent content, const FileFormat& stored,
                                    const IoSettings& moving, const ReadSettings& reading);
// Writes a new file from memory, that of a GPU if from_device, and syncs it apart.
std::unique_ptr<Subject> codec_write(Workplace& place, SharedContent content, const FileFormat& stored,
                                     const IoSettings& moving, bool from_device = false);
// Opens the file, which reads and checks its index.
std::unique_ptr<Subject> codec_open(Workplace& place, SharedContent content, const FileFormat& stored,
                                    const IoSettings& moving);

// Every byte of the content's plain v4 file once, in blocks, by as many threads as the codec would use.
std::unique_ptr<Subject> raw_read(Workplace& place, SharedContent content, const IoSettings& moving, Target target,
                                  Cache cache);
// As many bytes as that into a new file.
std::unique_ptr<Subject> raw_write(Workplace& place, SharedContent content, const IoSettings& moving);

// Raw transfers between a file and GPU memory, with an attestation of the way they took.
std::unique_ptr<Subject> device_read(Workplace& place, SharedContent content, const IoSettings& moving);
std::unique_ptr<Subject> device_write(Workplace& place, SharedContent content, const IoSettings& moving);

// Does once, observed, what moves bytes by the path gpudirect, and puts into the description the way that they took.
void attest(RunDescription& description, const std::function<void()>& pass);

// Whether a path goes by the page cache, so that no file is warm for it.
bool is_direct(std::string_view io);

// How many threads 0 stands for, and how many transfers in flight over all threads.
unsigned thread_count(unsigned threads);
unsigned queue_depth(const File& file, const IoSettings& moving);

// Times the fsync behind a write.
void sync(File& file, Sample& sample);
// Times writing a new file in the place of an old one: what fill does, and apart from it the fsync. Letting the file go
// belongs to writing it.
Sample timed_write(const Workplace& place, const std::string& file_name, const std::string& io,
                   const std::function<void(File&)>& fill);

// Makes the state of the cache, and says what it then is. Throws TZE-AVL-001 if it cannot be had here: a result that
// says cold must not be warm.
double make_cache_state(const std::string& file_name, Cache cache);

}  // namespace tzmark::bench
