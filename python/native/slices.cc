// Reading parts of tensors; see slices.h.
#include "slices.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "on_threads.h"
#include "tzmark/device_memory.h"
#include "tzmark/memory.h"

namespace tzmark::py {
namespace {

// Transfers begin at its multiples, as the messages of encrypted tensors do.
constexpr std::uint64_t kBlockBytes = 2 << 20;
// Runs that are closer together are read with what lies between them. Measured on Zen 4 with rows of 8 and 28 KiB, of
// which a rank reads a half to a sixteenth: single reads of the runs are as fast from the page cache, and 2 to 5 times
// as slow by direct.
constexpr std::uint64_t kGapBytesMax = 64 << 10;

// A tensor that the first thread opens that reads some of it.
class OpenedTensor {
 public:
  OpenedTensor(const TensorSource& source, std::size_t tensor) : source_(source), tensor_(tensor) {}
  TensorStream& stream() {
    std::call_once(once_, [&] { stream_ = source_.open(tensor_); });
    return *stream_;
  }

 private:
  const TensorSource& source_;
  const std::size_t tensor_;
  std::once_flag once_;
  std::unique_ptr<TensorStream> stream_;
};

// Bytes of a tensor that are read together, and the runs of length_bytes in them that are wanted.
struct Block {
  std::shared_ptr<OpenedTensor> tensor;
  std::uint64_t offset = 0;            // in the tensor
  std::size_t bytes = 0;               // with the gaps
  std::size_t length_bytes = 0;        // of a run
  std::vector<std::size_t> positions;  // of the runs, relative to offset
  MutableBuffer out;

  bool has_gaps() const { return bytes != out.size; }
};

// Divides slices into blocks. Thread-safe.
class Blocks {
 public:
  Blocks(const TensorSource& source, std::vector<SlicedTensor> slices) : source_(source), slices_(std::move(slices)) {}

  // Reuses the memory of block. Returns false after the last one.
  bool next(Block& block) {
    const std::lock_guard lock(mutex_);
    while (at_ < slices_.size() && slices_[at_].runs.is_done()) {
      ++at_;
      opened_.reset();
    }
    if (at_ == slices_.size()) return false;
    SlicedTensor& slice = slices_[at_];
    if (!opened_) opened_ = std::make_shared<OpenedTensor>(source_, slice.tensor);
    block.tensor = opened_;
    block.positions.clear();
    if (slice.runs.length() > kBlockBytes / 2) {
      part_of_run(slice, block);
    } else {
      several_runs(slice, block);
    }
    return true;
  }

 private:
  // From where the last block ended to the next multiple of kBlockBytes.
  void part_of_run(SlicedTensor& slice, Block& block) {
    block.offset = slice.runs.offset() + done_bytes_;
    block.bytes =
        static_cast<std::size_t>(std::min(slice.runs.length() - done_bytes_, kBlockBytes - block.offset % kBlockBytes));
    block.length_bytes = block.bytes;
    block.positions.push_back(0);
    done_bytes_ += block.bytes;
    if (done_bytes_ == slice.runs.length()) {
      slice.runs.advance();
      done_bytes_ = 0;
    }
    block.out = take(slice, block.bytes);
  }

  static void several_runs(SlicedTensor& slice, Block& block) {
    Runs& runs = slice.runs;
    block.offset = runs.offset();
    block.length_bytes = static_cast<std::size_t>(runs.length());
    do {
      const auto position = static_cast<std::size_t>(runs.offset() - block.offset);
      if (!block.positions.empty() &&
          (position + block.length_bytes > kBlockBytes || position - block.bytes > kGapBytesMax)) {
        break;
      }
      block.positions.push_back(position);
      block.bytes = position + block.length_bytes;
      runs.advance();
    } while (!runs.is_done());
    block.out = take(slice, block.positions.size() * block.length_bytes);
  }

  static MutableBuffer take(SlicedTensor& slice, std::size_t bytes) {
    const MutableBuffer taken = slice.out.sub(0, bytes);
    slice.out = slice.out.sub(bytes, slice.out.size - bytes);
    return taken;
  }

  const TensorSource& source_;
  std::mutex mutex_;
  std::vector<SlicedTensor> slices_;
  std::size_t at_ = 0;
  std::uint64_t done_bytes_ = 0;  // of the run that slices_[at_] is at
  std::shared_ptr<OpenedTensor> opened_;
};

// What one thread reads with. Memory is allocated, and pinned for a GPU, when it is first needed.
class BlockReader {
 public:
  Block block;

  void read() {
    TensorStream& stream = block.tensor->stream();
    const bool is_host = block.out.kind == MemoryKind::kHost;
    if (is_host && !block.has_gaps()) return stream.read(block.offset, block.out);
    if (with_gaps_.bytes().empty()) with_gaps_ = HostMemory(kBlockBytes);
    const std::span<std::byte> read = with_gaps_.bytes().first(block.bytes);
    stream.read(block.offset, read);
    if (is_host) return gather(read, block.out.bytes());
    // In place: a run never moves backward past what is still to be moved.
    gather(read, read);
    if (!is_pinned_) {
      pinned_ = PinnedRange(with_gaps_.bytes(), device_of(block.out));
      is_pinned_ = true;
    }
    copy_from_host(read.first(block.out.size), block.out);
  }

 private:
  void gather(std::span<const std::byte> from, std::span<std::byte> to) const {
    for (std::size_t i = 0; i < block.positions.size(); ++i) {
      std::memmove(to.data() + i * block.length_bytes, from.data() + block.positions[i], block.length_bytes);
    }
  }

  HostMemory with_gaps_;
  PinnedRange pinned_;  // after the memory, so that it goes first
  bool is_pinned_ = false;
};

}  // namespace

Runs::Runs(std::span<const std::uint64_t> shape, const Slice& slice, std::uint64_t item_bytes)
    : begin_(slice.begin), end_(slice.end), at_(slice.begin), strides_(shape.size()) {
  std::uint64_t stride = item_bytes;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides_[i] = stride;
    stride *= shape[i];
  }
  outer_ = shape.size();
  length_ = item_bytes;
  // Whole inner dimensions, and the part of one more, are contiguous.
  while (outer_ > 0) {
    --outer_;
    length_ = strides_[outer_] * (end_[outer_] - begin_[outer_]);
    if (begin_[outer_] != 0 || end_[outer_] != shape[outer_]) break;
  }
  for (std::size_t i = 0; i < shape.size(); ++i) is_done_ = is_done_ || begin_[i] == end_[i];
}

std::uint64_t Runs::offset() const {
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < strides_.size(); ++i) offset += at_[i] * strides_[i];
  return offset;
}

void Runs::advance() {
  for (std::size_t i = outer_; i-- > 0;) {
    if (++at_[i] < end_[i]) return;
    at_[i] = begin_[i];
  }
  is_done_ = true;
}

void read_slices(const TensorSource& source, std::vector<SlicedTensor> slices, unsigned threads, Meter& meter) {
  std::uint64_t bytes = 0;
  for (const SlicedTensor& slice : slices) bytes += slice.out.size;
  Blocks blocks(source, std::move(slices));
  const std::uint64_t useful = bytes / kBlockBytes + 1;
  run_on_threads<BlockReader>(static_cast<unsigned>(std::min<std::uint64_t>(threads, useful)),
                              [&](BlockReader& reader) {
                                meter.check();
                                if (!blocks.next(reader.block)) return false;
                                reader.read();
                                meter.add(reader.block.out.size);
                                return true;
                              });
}

}  // namespace tzmark::py
