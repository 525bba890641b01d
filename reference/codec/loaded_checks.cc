// Verifies tensors that were loaded unverified and are in use: Reader::check_loaded.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>

#include "codec/device_copies.h"
#include "codec/reader_state.h"
#include "codec/tensor_digest.h"
#include "tzmark/device_compute.h"
#include "tzmark/device_memory.h"
#include "tzmark/digest.h"
#include "tzmark/error.h"
#include "tzmark/threads.h"

namespace tzmark {
namespace {

// Fits into the cache of a core, which reads it twice.
constexpr std::size_t kPieceBytes = 256 << 10;

class LoadedChecks {
 public:
  LoadedChecks(const Reader& reader, const ReaderState& state, std::span<const ConstBuffer> loaded, Verification verify)
      : reader_(reader), state_(state), loaded_(loaded), verify_(verify) {
    find_place();
  }

  // Throws the first error in file order.
  void run() {
    compute_crc32();
    const std::size_t threads = std::min<std::size_t>(state_.pipeline_options().thread_count(), loaded_.size());
    {
      const auto helpers = start_threads(threads > 0 ? threads - 1 : 0, [&](std::size_t) { work(); });
      work();
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // Throws unless the memory is that of all tensors, on the host or on one GPU.
  void find_place() {
    const TensorTable& tensors = reader_.tensors();
    if (loaded_.size() != tensors.size()) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("memory of {} tensors for the {} of the file", loaded_.size(), tensors.size()));
    }
    std::optional<std::optional<int>> place;
    for (std::size_t i = 0; i < loaded_.size(); ++i) {
      const ConstBuffer& memory = loaded_[i];
      if (const std::uint64_t length = tensors[i].data_length; memory.size != length) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("a buffer of {} bytes for a tensor of {} bytes", memory.size, length));
      }
      if (memory.size == 0) continue;
      const auto here = memory.kind == MemoryKind::kDevice ? std::optional(device_of(memory)) : std::nullopt;
      if (place && *place != here) throw Error(ErrorCode::kUsage, "the tensors are in memory of several devices");
      place = here;
    }
    if (place) device_ = *place;
    if (device_) copies_.emplace(*device_, state_.options.piece_bytes, state_.index.header.encrypted);
  }

  // On the GPU, if it has to compute nothing else.
  void compute_crc32() {
    if (!device_ || verify_ != Verification::kCrc32 || !why_no_device_compute(*device_).empty()) return;
    std::vector<ConstBuffer> ranges(loaded_.begin(), loaded_.end());
    for (ConstBuffer& range : ranges) range.kind = MemoryKind::kDevice;  // also of those without data
    crc32_ = crc32_on_device(ranges);
  }

  void work() {
    // A tensor that was taken is checked to its end, also if a later one has failed meanwhile.
    while (!has_failed_) {
      const std::size_t place = next_++;
      if (place >= loaded_.size()) return;
      try {
        check(state_.index.in_file_order(place));
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failure_ || place < failed_place_) {
          failure_ = std::current_exception();
          failed_place_ = place;
        }
        has_failed_ = true;
      }
    }
  }

  void check(std::size_t tensor) {
    const std::unique_ptr<TensorStream> stream = reader_.open(tensor);
    const ExpectedHashes& expected = *stream->expected();
    const bool wants_crc32 = expected.wants_crc32();
    const ConstBuffer memory = loaded_[tensor];
    TensorDigest digest;
    digest.begin(expected.hashed_header(), wants_crc32, verify_ == Verification::kAll && expected.wants_sha256());
    if (!crc32_.empty()) {
      digest.add_crc32(crc32_[tensor], memory.size);
    } else if (memory.kind == MemoryKind::kDevice && memory.size != 0) {
      add_from_device(*copies_, memory, wants_crc32, digest, state_.options.progress);
    } else {
      for (std::size_t at = 0; at < memory.size; at += kPieceBytes) {
        const auto piece = memory.bytes().subspan(at, std::min(kPieceBytes, memory.size - at));
        digest.add(piece, wants_crc32 ? crc32(0, piece) : 0);
        if (state_.options.progress) state_.options.progress(piece.size());
      }
    }
    expected.check(digest.crc32(), digest.finish_sha256(), verify_);
  }

  const Reader& reader_;
  const ReaderState& state_;
  const std::span<const ConstBuffer> loaded_;
  const Verification verify_;
  std::optional<int> device_;  // none: host memory
  std::optional<DeviceCopies> copies_;
  std::vector<std::uint32_t> crc32_;  // of each tensor's data, if the GPU has computed them
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> has_failed_ = false;
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::size_t failed_place_ = 0;
};

}  // namespace

void Reader::check_loaded(std::span<const ConstBuffer> loaded, Verification verify) const {
  LoadedChecks checks(*this, *state_, loaded, verify);
  if (verify != Verification::kNone) checks.run();
}

}  // namespace tzmark
