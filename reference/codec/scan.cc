// Reading all data of a file, or one tensor, through the pipeline.

#include <cstring>

#include "codec/scan_job.h"
#include "tzmark/reader.h"

namespace tzmark {

void Reader::scan(const ScanOptions& options, const std::function<void(const ScannedTensor&)>& done) const {
  ScanJob job(*state_, options, 0, tensors().size(), done, {});
  job.run(file_bytes());
}

void Reader::read(std::size_t tensor, MutableBuffer out, Verification verify) const {
  const TensorInfo info = tensors()[tensor];
  state_->check_room(tensor, out.size);
  if (out.kind == MemoryKind::kDevice)
    throw Error(ErrorCode::kUsage, "read() reads into host memory; use read_into_device()");
  if (info.meta()) std::memset(out.data, 0, out.size);
  const std::size_t place = state_->index.place_in_file(tensor);
  ScanJob job(
      *state_, {.verify = verify}, place, place + 1, {}, [&](std::size_t) { return out.data; }, out.bytes());
  job.run(info.data_length);
}

LoadedTensors Reader::load(Verification verify, HostMemory::Pages pages) const {
  LoadedTensors loaded(tensors(), pages);
  ScanJob job(
      *state_, {.verify = verify}, 0, tensors().size(), {}, [&](std::size_t tensor) { return loaded[tensor].data(); },
      pages == HostMemory::Pages::kHuge ? loaded.memory_.bytes() : std::span<std::byte>());
  job.run(file_bytes());
  return loaded;
}

LoadedTensors::LoadedTensors(const TensorTable& tensors, HostMemory::Pages pages) {
  // The widest alignment of vector instructions.
  constexpr std::uint64_t kAlignBytes = 64;
  ranges_.reserve(tensors.size());
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t length = tensors[i].data_length;
    ranges_.push_back({end, length});
    end += (length + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
  }
  memory_ = HostMemory(end, pages);
}

}  // namespace tzmark
