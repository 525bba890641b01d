// Reading all data of a file, or one tensor, through the pipeline.

#include <algorithm>
#include <cstring>

#include "codec/scan_job.h"
#include "tzmark/reader.h"

namespace tzmark {

void Reader::scan(const ScanOptions& options, const std::function<void(const ScannedTensor&)>& done) const {
  ScanJob job(*state_, options, 0, tensors().size(), done, {});
  job.run(file_bytes());
}

std::vector<std::span<const ReadTarget>> runs_in_file(const ReaderState& state, std::vector<ReadTarget>& targets) {
  const auto place = [&](const ReadTarget& target) { return state.index.place_in_file(target.tensor); };
  std::ranges::sort(targets, {}, place);
  std::vector<std::span<const ReadTarget>> runs;
  for (std::size_t begin = 0, end = 0; begin < targets.size(); begin = end) {
    end = begin + 1;
    while (end < targets.size() && place(targets[end]) == place(targets[end - 1]) + 1) ++end;
    runs.emplace_back(targets.data() + begin, end - begin);
  }
  return runs;
}

void Reader::read(std::size_t tensor, MutableBuffer out, Verification verify) const {
  const ReadTarget target{tensor, out};
  read(std::span(&target, 1), verify);
}

void Reader::read(std::span<const ReadTarget> targets, Verification verify) const {
  for (const auto& [tensor, out] : targets) {
    state_->check_room(tensor, out.size);
    if (out.kind == MemoryKind::kDevice) {
      throw Error(ErrorCode::kUsage, "read() reads into host memory; use read_into_device()");
    }
  }
  std::vector<ReadTarget> sorted(targets.begin(), targets.end());
  for (const std::span<const ReadTarget> run : runs_in_file(*state_, sorted)) {
    std::uint64_t data_bytes = 0;
    for (const auto& [tensor, out] : run) {
      const TensorInfo info = tensors()[tensor];
      if (info.meta()) std::memset(out.data, 0, out.size);
      data_bytes += info.data_length;
    }
    const std::size_t first = state_->index.place_in_file(run.front().tensor);
    ScanJob job(
        *state_, {.verify = verify}, first, first + run.size(), {},
        [&](std::size_t tensor) { return run[state_->index.place_in_file(tensor) - first].out.data; },
        run.size() == 1 ? run.front().out.bytes() : std::span<std::byte>());
    job.run(data_bytes);
  }
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
