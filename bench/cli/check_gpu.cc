// Item 7: reads into GPU memory, compared with the copy, the kernels, and other loaders.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "cli/bounds.h"
#include "cli/check_group.h"
#include "harness/peak_memory.h"
#include "program/installation.h"
#include "tzmark/checkpoint.h"
#include "tzmark/device_compute.h"
#include "tzmark/device_memory.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

constexpr std::string_view kOnPython = "Python to the GPU";
constexpr double kOpenedBytesPerSecond = 100e9;
// What a call may take besides its kernels.
constexpr double kCallSecondsMax = 1e-4;
constexpr std::size_t kFewMessagesBytes = std::size_t{256} << 20;

RatioCheck check_of(std::string name, double required, std::string note = {}) {
  return {.item = "7", .name = std::move(name), .required = required, .note = std::move(note)};
}

void conclude_without(CheckGroup& group, RatioCheck check, std::string why) {
  check.note = std::move(why);
  group.conclude(std::move(check));
}

std::size_t gpu_read(CheckGroup& group, const SharedContent& content, const std::string& io,
                     Verification verification) {
  return group.add(codec_read(group.place(), content, {}, {.io = io},
                              {.verification = verification, .target = Target::kDevice, .cache = cache_for(io)}));
}

// Returns the available path that moves GPU memory; empty without one.
std::string device_path() {
  for (const IoPath& path : io_paths()) {
    if (path.traits.moves_device_memory && path.why_unavailable().empty()) return std::string(path.name);
  }
  return {};
}

double slowest(std::span<const double> seconds) { return std::ranges::max(seconds); }

// Compares a read through host memory with the slower of its two halves.
void against_halves(CheckGroup& group, std::string name, std::size_t codec, std::size_t storage, std::size_t copy) {
  group.against(check_of(std::move(name), 0.9, "of min(path into reused memory, pinned copy)"), {codec, storage, copy},
                slowest);
}

// Compares both hashes with the slowest of the halves and the hashing.
void against_halves_and_lanes(CheckGroup& group, const SharedContent& content, std::size_t codec, std::size_t storage,
                              std::size_t copy) {
  const HashingRung hashing =
      hashing_rung(group.threads(), content->data_bytes(), content->workload().largest_tensor_bytes());
  const std::size_t lanes = group.add(ceiling(std::make_shared<Ladder>(hashing.threads), hashing.rung));
  group.against(check_of("pwrite to the GPU, both hashes verified", 0.85,
                         "of min(path into reused memory, pinned copy, SHA-256 on all cores)"),
                {codec, storage, copy, lanes}, slowest);
}

// The first load of this process, so that nothing is pinned yet.
void host_memory(CheckGroup& group, const SharedContent& content) {
  constexpr std::uint64_t kPromisedBytes = std::uint64_t{256} << 20;
  const std::string& file = group.place().file(content, {}, Cache::kWarm);
  const Reader reader = Reader::open(file, {});
  // The driver's own memory is not the load's.
  const DeviceMemory creates_the_context(1);
  static_cast<void>(why_no_device_compute());
  PeakMemory watch;
  static_cast<void>(reader.load_into_device({.verify = Verification::kNone}));
  const std::uint64_t bytes = watch.stop().anonymous_bytes;
  const double share = static_cast<double>(bytes) / static_cast<double>(kPromisedBytes);
  RatioCheck check = check_of(fmt::format("host memory of a load of {} bytes", content->data_bytes()), 1,
                              "anonymous memory, pinned or not, sampled every millisecond");
  check.measured = {fmt::format("at most {} bytes", bytes)};
  check.against = {fmt::format("{} bytes", kPromisedBytes)};
  check.ratio = {.estimate = share, .low = share, .high = share, .pairs = 1};
  check.at_most = true;
  check.verdict = share <= 1 ? BoundVerdict::kPass : BoundVerdict::kFail;
  group.conclude(std::move(check));
}

void kernels(CheckGroup& group, const std::vector<std::size_t>& ways) {
  const RatioCheck of_crc32 = check_of("CRC32 on the GPU against the fastest route there", 20);
  const RatioCheck of_crc32_kernel = check_of("CRC32 kernel against reading GPU memory", 0.85, "ranges of 2 MiB");
  const RatioCheck of_call = check_of("call of CRC32 against its kernel and 0.1 ms", 1,
                                      fmt::format("{} bytes", group.options().gpu_set_bytes));
  const RatioCheck of_opened = check_of("decryption on the GPU against 100 GB/s", 1);
  const RatioCheck of_few =
      check_of("decryption kernels against reading GPU memory", 0.15, "128 messages of 2 MiB, verified and opened");
  if (const std::string& why = why_no_device_compute(); !why.empty()) {
    for (const RatioCheck& check : {of_crc32, of_crc32_kernel, of_call, of_opened, of_few}) {
      conclude_without(group, check, why);
    }
    return;
  }
  const std::size_t gpu_bytes = group.options().gpu_set_bytes;
  const std::size_t memory = group.add(ceiling(GpuRung::kRead, gpu_bytes));
  const std::size_t crc32 = group.add(ceiling(GpuRung::kCrc32, gpu_bytes));
  const std::size_t crc32_kernel = group.add(ceiling(GpuRung::kCrc32Kernel, gpu_bytes));
  group.best_ratio(of_crc32, {crc32}, ways);
  group.against(of_crc32_kernel, {crc32_kernel, memory}, slowest);
  group.against(of_call, {crc32, crc32_kernel}, [gpu_bytes](std::span<const double> seconds) {
    return seconds.front() + kCallSecondsMax / static_cast<double>(gpu_bytes);
  });
  group.against(of_opened, {group.add(ceiling(GpuRung::kSecretbox, gpu_bytes))},
                [](std::span<const double>) { return 1 / kOpenedBytesPerSecond; });
  const std::size_t few = group.add(ceiling(GpuRung::kSecretboxKernel, std::min(gpu_bytes, kFewMessagesBytes)));
  group.against(of_few, {few, memory}, slowest);
}

// Few samples of each, all in turn or one side after the other: the medians are compared.
void conclude_medians(CheckGroup& group, RatioCheck check, std::vector<double> measured_s,
                      std::vector<double> against_s) {
  if (measured_s.empty() || against_s.empty()) return conclude_without(group, std::move(check), "stopped before");
  std::ranges::sort(measured_s);
  std::ranges::sort(against_s);
  check.measured = {fmt::format("{:.4f} s", fmt::join(measured_s, ", "))};
  check.against = {fmt::format("{:.4f} s", fmt::join(against_s, ", "))};
  const double ratio = against_s[against_s.size() / 2] / measured_s[measured_s.size() / 2];
  check.ratio = {.estimate = ratio,
                 .low = against_s.front() / measured_s.back(),
                 .high = against_s.back() / measured_s.front(),
                 .pairs = measured_s.size()};
  check.verdict = ratio >= check.required ? BoundVerdict::kPass : BoundVerdict::kFail;
  check.note = "medians; the interval is that of the extremes";
  group.conclude(std::move(check));
}

// Starting Python and torch takes far longer than a load, so that this is no contest: some first loads, each of a new
// process, and as many later ones of the last process.
void first_loads(CheckGroup& group, const SharedContent& content, const std::shared_ptr<RunningPeer>& module,
                 RatioCheck check) {
  constexpr std::size_t kLoads = 3;
  const auto first = peer_run(group.place(), content, module, {}, {.into_device = true, .is_first = true});
  const auto later = peer_run(group.place(), content, module, {}, {.into_device = true});
  try {
    first->verify();
    later->verify();
  } catch (const Error& error) {
    return conclude_without(group, std::move(check), error.message());
  }
  std::vector<double> first_s, later_s;
  const auto take = [&](Subject& subject, std::vector<double>& seconds) {
    for (std::size_t i = 0; i < kLoads && !group.options().contests.is_stopped(); ++i) {
      seconds.push_back(static_cast<double>(subject.run().elapsed_ns) / 1e9);
    }
  };
  take(*first, first_s);
  take(*later, later_s);
  conclude_medians(group, std::move(check), std::move(first_s), std::move(later_s));
}

template <typename Action>
double seconds_of(Action&& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

bool are_equal(const LoadedCheckpoint& loaded, TensorViews saved, std::span<const CopyToHost> copies) {
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const auto found = std::ranges::find(loaded.model, saved[i].name, &CheckpointTensor::name);
    if (found == loaded.model.end() || !std::ranges::equal(found->data.bytes(), copies[i].to)) return false;
  }
  return loaded.model.size() == saved.size();
}

}  // namespace

void gpu_memory(CheckGroup& group) {
  if (const std::string why = DeviceMemory::why_unavailable(); !why.empty()) {
    return conclude_without(group, check_of("GPU memory", 1), why);
  }
  const auto content = group.content(large_tensors(group.options()));
  host_memory(group, content);
  const std::size_t gpu_bytes = group.options().gpu_set_bytes;
  const std::size_t copy = group.add(ceiling(GpuRung::kCopy, gpu_bytes));
  group.add(ceiling(GpuRung::kFill, gpu_bytes));
  const auto read = [&](const std::string& io, Verification verification) {
    return gpu_read(group, content, io, verification);
  };
  for (const std::string io : {"pwrite", "uring-direct"}) {
    const std::size_t storage = group.add(raw_read(group.place(), content, {.io = io}, Target::kSink, cache_for(io)));
    const std::size_t unverified = read(io, Verification::kNone), verified = read(io, Verification::kCrc32);
    against_halves(group, fmt::format("{} to the GPU", io), unverified, storage, copy);
    against_halves(group, fmt::format("{} to the GPU, CRC32 verified", io), verified, storage, copy);
    if (cache_for(io) != Cache::kWarm) continue;
    group.against(check_of(fmt::format("{} to the GPU, CRC32 verified against unverified", io), 0.97),
                  {verified, unverified}, slowest);
    against_halves_and_lanes(group, content, read(io, Verification::kAll), storage, copy);
  }
  std::vector<std::size_t> ways = {copy};
  if (const std::string io = device_path(); !io.empty()) {
    ways.push_back(group.add(device_read(group.place(), content, {.io = io})));
  }
  kernels(group, ways);
}

void gpu_against_peer(CheckGroup& group) {
  const std::string name = "read to the GPU against tensorizer";
  if (!DeviceMemory::why_unavailable().empty()) return;  // gpu_memory has reported it
  const RatioCheck check = check_of(name, 2, "warm cache, same bytes, best of each side");
  std::string why;
  const auto tensorizer = start_peer("tensorizer", installation_prefix(), Pages::kHuge, why, PeerMemory::kGpu);
  if (!tensorizer) return conclude_without(group, check, why);
  const auto content = group.content(large_tensors(group.options()));
  std::vector<std::size_t> ours = {gpu_read(group, content, "pwrite", Verification::kNone)};
  if (const std::string io = device_path(); !io.empty()) {
    ours.push_back(gpu_read(group, content, io, Verification::kNone));
  }
  // Its fastest numbers of readers into a GPU, and its default.
  std::vector<std::size_t> theirs;
  for (const std::optional<unsigned> readers : {std::optional<unsigned>(), std::optional(4U)}) {
    theirs.push_back(
        group.add(peer_run(group.place(), content, tensorizer, {}, {.readers = readers, .into_device = true})));
  }
  group.best_ratio(check, ours, theirs);
}

void gpu_python(CheckGroup& group) {
  if (!DeviceMemory::why_unavailable().empty()) return;
  std::vector<RatioCheck> of_loaders;
  for (const std::string_view loader : kGpuLoaders) {
    of_loaders.push_back(check_of(fmt::format("{}, safetensors, against {}", kOnPython, loader), 1,
                                  "warm cache, same file, both through the page cache"));
  }
  const RatioCheck of_copy = check_of(std::string(kOnPython), 0.9, "of min(path into reused memory, pinned copy)");
  RatioCheck of_first = check_of(fmt::format("{}, first load of a process against later ones", kOnPython), 0.9);
  std::string why;
  const auto start = [&](std::string_view name) {
    return start_peer(name, installation_prefix(), Pages::kHuge, why, PeerMemory::kGpu);
  };
  const auto module = start(kPythonModule);
  if (!module) {
    for (const RatioCheck& check : of_loaders) conclude_without(group, check, why);
    conclude_without(group, of_copy, why);
    return conclude_without(group, of_first, why);
  }
  const auto content = group.content(large_tensors(group.options()));
  const auto read = [&](const std::shared_ptr<RunningPeer>& peer, PeerRun run) {
    run.into_device = true;
    return group.add(peer_run(group.place(), content, peer, {}, run));
  };
  const std::size_t later = read(module, {});
  const std::size_t storage =
      group.add(raw_read(group.place(), content, {.io = "pwrite"}, Target::kSink, Cache::kWarm));
  const std::size_t copy = group.add(ceiling(GpuRung::kCopy, group.options().gpu_set_bytes));
  group.against(of_copy, {later, storage, copy}, slowest);
  first_loads(group, content, module, std::move(of_first));
  const std::size_t ours = read(module, {.safetensors = true});
  for (std::size_t i = 0; i < of_loaders.size(); ++i) {
    const auto loader = start(kGpuLoaders[i]);
    if (!loader) {
      conclude_without(group, of_loaders[i], why);
      continue;
    }
    group.against(of_loaders[i], {ours, read(loader, {.safetensors = true})}, slowest);
  }
}

// A save of tensors in GPU memory stalls the training loop for as long as their copy to pinned memory takes.
void gpu_checkpoint(CheckGroup& group) {
  if (!DeviceMemory::why_unavailable().empty()) return;
  constexpr std::size_t kTensors = 32, kSaves = 4;
  constexpr std::uint64_t kStateBytesMax = std::uint64_t{2} << 30;
  const std::size_t tensor_bytes = std::min(group.options().scale_bytes, kStateBytesMax) / kTensors;
  DeviceMemory state(tensor_bytes * kTensors);
  HostMemory copied(state.buffer().size);
  fill_with_data(state);
  std::ranges::fill(copied.bytes(), std::byte{1});
  const PinnedRange pinned(copied.bytes());
  std::vector<CheckpointTensor> tensors;
  std::vector<CopyToHost> copies;
  for (std::size_t i = 0; i < kTensors; ++i) {
    const ConstBuffer memory = ConstBuffer(state.buffer()).sub(i * tensor_bytes, tensor_bytes);
    tensors.push_back({fmt::format("t{:02}", i), "uint8", {tensor_bytes}, memory});
    copies.push_back({memory, copied.bytes().subspan(i * tensor_bytes, tensor_bytes)});
  }
  AsyncCheckpointer checkpointer;
  std::vector<double> copy_s, stall_s;
  for (std::size_t i = 0; i <= kSaves && !group.options().contests.is_stopped(); ++i) {
    const std::string directory = group.place().new_name("");
    const double copy = seconds_of([&] { copy_to_host(copies); });
    const double stall = seconds_of([&] { checkpointer.save(directory, tensors, {}, TrainingState()); });
    checkpointer.wait();
    if (i > 0) {
      copy_s.push_back(copy);
      stall_s.push_back(stall);
    } else if (!are_equal(load_checkpoint(directory), tensors, copies)) {
      // The first save also pins the memory of its snapshot.
      throw Error(ErrorCode::kFileChanged, "the checkpoint differs from the tensors on the GPU");
    }
    group.place().clear();
  }
  conclude_medians(
      group,
      check_of(fmt::format("pinned copy against the stall of a checkpoint, {} bytes", copied.bytes().size()), 1 / 1.1),
      std::move(stall_s), std::move(copy_s));
}

}  // namespace tzmark::bench
