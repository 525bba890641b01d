// Copying at memory bandwidth: every thread copies an equal share of the bytes, whatever the sizes of the tensors.
#include "checkpoint/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <set>

#include "bytes/threads.h"
#include "tzmark/dtype.h"
#include "tzmark/error.h"

namespace tzmark {

std::span<std::byte> SnapshotPool::take(std::uint64_t bytes, bool pinned) {
  if (bytes > held_bytes()) {
    pinned_range_ = {};
    pinned_ = false;
    memory_ = HostMemory();
    memory_ = HostMemory(static_cast<std::size_t>(bytes));
  }
  if (pinned && !pinned_) {
    // Pages that are there are pinned several times as fast.
    checkpoint::touch(memory_.bytes(), 0);
    try {
      pinned_range_ = PinnedRange(memory_.bytes());
      pinned_ = true;
    } catch (const Error&) {
      // The system limits pinned memory; without it copies from the GPU are slower.
    }
  }
  return memory_.bytes().first(static_cast<std::size_t>(bytes));
}

namespace checkpoint {
namespace {

constexpr std::uint64_t kAlignBytes = 64;
constexpr std::size_t kPageBytes = 4096;
// Starting a thread costs more than copying this.
constexpr std::uint64_t kShareBytesMin = 1 << 20;

struct Copy {
  ConstBuffer from;
  std::byte* to;
};

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes; }

// Calls work(begin, end) for equal shares of the bytes, one per thread. Throws the first error.
template <typename Work>
void share_out(std::uint64_t bytes, unsigned threads, const Work& work) {
  if (threads == 0) threads = core_count();
  const auto count = static_cast<unsigned>(std::clamp<std::uint64_t>(bytes / kShareBytesMin, 1, threads));
  std::vector<std::exception_ptr> errors(count);
  const auto part = [&](unsigned i) {
    try {
      work(bytes / count * i, i + 1 == count ? bytes : bytes / count * (i + 1));
    } catch (...) {
      errors[i] = std::current_exception();
    }
  };
  {
    const auto helpers = start_threads(count - 1, [&](std::size_t i) { part(static_cast<unsigned>(i) + 1); });
    part(0);
    for (auto i = static_cast<unsigned>(helpers.size()) + 1; i < count; ++i) part(i);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// The bytes from begin to end, counted over all copies one after the other.
void copy_share(std::span<const Copy> copies, std::uint64_t begin, std::uint64_t end) {
  std::uint64_t at = 0;
  std::vector<CopyToHost> of_gpu;
  for (const Copy& whole : copies) {
    const std::uint64_t from = std::max(begin, at);
    const std::uint64_t to = std::min(end, at + whole.from.size);
    if (from < to) {
      const auto skip = static_cast<std::size_t>(from - at);
      const ConstBuffer part = whole.from.sub(skip, static_cast<std::size_t>(to - from));
      if (part.kind == MemoryKind::kDevice) {
        of_gpu.push_back({part, {whole.to + skip, part.size}});
      } else {
        std::memcpy(whole.to + skip, part.data, part.size);
      }
    }
    at += whole.from.size;
    if (at >= end) break;
  }
  copy_to_host(of_gpu);
}

}  // namespace

std::uint64_t TensorSet::bytes() const {
  std::uint64_t bytes = 0;
  for (const ConstBuffer& tensor : data) bytes += tensor.size;
  return bytes;
}

TensorSet describe(TensorViews tensors) {
  TensorSet set;
  std::set<std::string_view> names;
  for (const CheckpointTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw Error(ErrorCode::kUsage, fmt::format("there are two tensors '{}'", tensor.name));
    }
    set.table.add({tensor.name}, Kind::kStateDict, dtype_from_name(tensor.dtype), tensor.shape);
    const std::uint64_t bytes = set.table[set.data.size()].data_length;
    if (tensor.data.size != bytes) {
      throw Error(ErrorCode::kUsage, fmt::format("'{}' has {} bytes of data; its shape and dtype give {}", tensor.name,
                                                 tensor.data.size, bytes));
    }
    set.data.push_back(tensor.data);
  }
  return set;
}

std::uint64_t snapshot_bytes(const TensorSet& tensors) {
  std::uint64_t bytes = 0;
  for (const ConstBuffer& tensor : tensors.data) bytes += aligned(tensor.size);
  return bytes;
}

void copy_to_snapshot(std::span<TensorSet* const> sets, std::span<std::byte> memory, unsigned threads) {
  std::vector<Copy> copies;
  std::uint64_t bytes = 0;
  std::byte* place = memory.data();
  for (TensorSet* const set : sets) {
    for (ConstBuffer& tensor : set->data) {
      copies.push_back({tensor, place});
      bytes += tensor.size;
      tensor = {place, tensor.size};
      place += aligned(tensor.size);
    }
  }
  share_out(bytes, threads, [&](std::uint64_t begin, std::uint64_t end) { copy_share(copies, begin, end); });
}

void touch(std::span<std::byte> memory, unsigned threads) {
  share_out(memory.size(), threads, [&](std::uint64_t begin, std::uint64_t end) {
    // A store that the compiler must not leave out.
    for (std::uint64_t at = begin; at < end; at += kPageBytes) *const_cast<volatile std::byte*>(&memory[at]) = {};
  });
}

}  // namespace checkpoint
}  // namespace tzmark
