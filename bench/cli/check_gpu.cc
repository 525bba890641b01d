// Item 7: reads into GPU memory, compared with the copy, the kernels, and tensorizer.
#include <fmt/format.h>

#include <algorithm>

#include "cli/check_group.h"
#include "tzmark/device_compute.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

constexpr double kOpenedBytesPerSecond = 100e9;

RatioCheck not_measured(std::string name, double required, std::string why) {
  return {.item = "7", .name = std::move(name), .required = required, .note = std::move(why)};
}

std::size_t gpu_read(CheckGroup& group, const SharedContent& content, const std::string& io,
                     Verification verification) {
  return group.add(codec_read(group.place(), content, {}, {.io = io},
                              {.verification = verification, .target = Target::kDevice, .cache = cache_for(io)}));
}

bool has_gpudirect() { return std::ranges::find(io_paths(), "gpudirect", &IoPath::name)->why_unavailable().empty(); }

// Compares a read through host memory with the slower of its two halves in each round.
void against_halves(CheckGroup& group, std::string name, std::size_t codec, std::size_t storage, std::size_t copy) {
  for (const std::size_t i : {codec, storage, copy}) {
    if (!group.why(i).empty()) return group.conclude(not_measured(std::move(name), 0.9, group.why(i)), {});
  }
  std::vector<double> ratios = group.rates(codec);
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    ratios[i] /= std::min(group.rates(storage)[i], group.rates(copy)[i]);
  }
  group.conclude({.item = "7",
                  .name = std::move(name),
                  .measured = {group.id(codec)},
                  .against = {group.id(storage), group.id(copy)},
                  .required = 0.9,
                  .note = "of min(path into reused memory, pinned copy)"},
                 std::move(ratios));
}

}  // namespace

void gpu_memory(CheckGroup& group) {
  if (const std::string why = DeviceMemory::why_unavailable(); !why.empty()) {
    return group.conclude_as_is(not_measured("GPU memory", 1, why));
  }
  const auto content = group.content(large_tensors(group.options()));
  const std::size_t gpu_bytes = group.options().gpu_set_bytes;
  const std::size_t copy = group.add(ceiling(GpuRung::kCopy, gpu_bytes));
  group.add(ceiling(GpuRung::kFill, gpu_bytes));
  const auto read = [&](const std::string& io, Verification verification) {
    return gpu_read(group, content, io, verification);
  };
  struct Row {
    std::string io;
    std::size_t codec, verified, storage;
  };
  std::vector<Row> rows;
  for (const char* io : {"pwrite", "uring-direct"}) {
    rows.push_back({io, read(io, Verification::kNone), read(io, Verification::kCrc32),
                    group.add(raw_read(group.place(), content, {.io = io}, Target::kSink, cache_for(io)))});
  }
  std::vector<std::size_t> ways = {copy};
  if (has_gpudirect()) ways.push_back(group.add(device_read(group.place(), content, {.io = "gpudirect"})));
  const std::string& why_no_kernels = why_no_device_compute();
  std::size_t crc32 = 0, opened = 0;
  if (why_no_kernels.empty()) {
    crc32 = group.add(ceiling(GpuRung::kCrc32, gpu_bytes));
    opened = group.add(ceiling(GpuRung::kSecretbox, gpu_bytes));
  }
  group.run();

  for (const Row& row : rows) {
    against_halves(group, fmt::format("{} to the GPU", row.io), row.codec, row.storage, copy);
    against_halves(group, fmt::format("{} to the GPU, CRC32 verified", row.io), row.verified, row.storage, copy);
  }
  const std::string of_crc32 = "CRC32 on the GPU against the fastest route there";
  const std::string of_opened = "decryption on the GPU against 100 GB/s";
  if (why_no_kernels.empty()) {
    group.best_ratio({.item = "7", .name = of_crc32, .required = 20}, {crc32}, ways);
    std::vector<double> ratios = group.rates(opened);
    for (double& ratio : ratios) ratio /= kOpenedBytesPerSecond;
    group.conclude(
        {.item = "7", .name = of_opened, .measured = {group.id(opened)}, .required = 1, .note = group.why(opened)},
        std::move(ratios));
  } else {
    group.conclude(not_measured(of_crc32, 20, why_no_kernels), {});
    group.conclude(not_measured(of_opened, 1, why_no_kernels), {});
  }
}

void gpu_against_peer(CheckGroup& group) {
  const std::string name = "read to the GPU against tensorizer";
  if (!DeviceMemory::why_unavailable().empty()) return;  // gpu_memory has reported it
  std::string why;
  const Peers peers = start_peers("tensorizer", why);
  if (peers.empty()) return group.conclude_as_is(not_measured(name, 2, why));
  const auto content = group.content(large_tensors(group.options()));
  std::vector<std::size_t> ours = {gpu_read(group, content, "pwrite", Verification::kNone)};
  if (has_gpudirect()) ours.push_back(gpu_read(group, content, "gpudirect", Verification::kNone));
  const std::vector<std::size_t> theirs = peer_reads(group, content, peers, {}, {.into_device = true});
  group.run();
  group.best_ratio({.item = "7", .name = name, .required = 2, .note = "warm cache, same bytes, best of each side"},
                   ours, theirs);
}

}  // namespace tzmark::bench
