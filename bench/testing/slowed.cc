// A slow-down of the codec, for tests of what should find one: the linker puts these functions between the bench and
// the codec. TZMARK_TEST_SLOWDOWN is the fraction of the time of each load and each write that is added to it.
#include <chrono>
#include <cstdlib>

#include "tzmark/reader.h"
#include "tzmark/writer.h"

namespace tzmark {

// The linker's names of the functions that are replaced; CMakeLists.txt names them too.
LoadedTensors real_load(const Reader* self, Verification verification, HostMemory::Pages pages) asm(
    "__real__ZNK6tzmark6Reader4loadENS_12VerificationENS_10HostMemory5PagesE");
LoadedTensors slow_load(const Reader* self, Verification verification, HostMemory::Pages pages) asm(
    "__wrap__ZNK6tzmark6Reader4loadENS_12VerificationENS_10HostMemory5PagesE");
#define TZMARK_WRITE_TENSORS \
  "_ZN6tzmark13write_tensorsERNS_4FileERKNS_11TensorTableERKNS_12TensorSourceERKNS_12WriteOptionsEPS0_"
WriteResult real_write(File& file, const TensorTable& tensors, const TensorSource& source, const WriteOptions& options,
                       File* data_file) asm("__real_" TZMARK_WRITE_TENSORS);
WriteResult slow_write(File& file, const TensorTable& tensors, const TensorSource& source, const WriteOptions& options,
                       File* data_file) asm("__wrap_" TZMARK_WRITE_TENSORS);

namespace {

using Clock = std::chrono::steady_clock;

// Works for a fraction of the time from construction to destruction, as slower code would.
class Slowdown {
 public:
  Slowdown() = default;
  Slowdown(const Slowdown&) = delete;
  Slowdown& operator=(const Slowdown&) = delete;
  ~Slowdown() {
    const char* const fraction = std::getenv("TZMARK_TEST_SLOWDOWN");
    if (fraction == nullptr) return;
    const Clock::time_point now = Clock::now();
    const auto more = std::chrono::duration_cast<Clock::duration>((now - begin_) * std::strtod(fraction, nullptr));
    while (Clock::now() < now + more) {
    }
  }

 private:
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace

LoadedTensors slow_load(const Reader* self, Verification verification, HostMemory::Pages pages) {
  const Slowdown slowdown;
  return real_load(self, verification, pages);
}

WriteResult slow_write(File& file, const TensorTable& tensors, const TensorSource& source, const WriteOptions& options,
                       File* data_file) {
  const Slowdown slowdown;
  return real_write(file, tensors, source, options, data_file);
}

}  // namespace tzmark
