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

// Returns the available path that moves GPU memory; empty without one.
std::string device_path() {
  for (const IoPath& path : io_paths()) {
    if (path.traits.moves_device_memory && path.why_unavailable().empty()) return std::string(path.name);
  }
  return {};
}

// Compares a read through host memory with the slower of its two halves.
void against_halves(CheckGroup& group, std::string name, std::size_t codec, std::size_t storage, std::size_t copy) {
  group.against(
      {.item = "7", .name = std::move(name), .required = 0.9, .note = "of min(path into reused memory, pinned copy)"},
      {codec, storage, copy}, [](std::span<const double> seconds) { return std::max(seconds[0], seconds[1]); });
}

}  // namespace

void gpu_memory(CheckGroup& group) {
  if (const std::string why = DeviceMemory::why_unavailable(); !why.empty()) {
    return group.conclude(not_measured("GPU memory", 1, why));
  }
  const auto content = group.content(large_tensors(group.options()));
  const std::size_t gpu_bytes = group.options().gpu_set_bytes;
  const std::size_t copy = group.add(ceiling(GpuRung::kCopy, gpu_bytes));
  group.add(ceiling(GpuRung::kFill, gpu_bytes));
  const auto read = [&](const std::string& io, Verification verification) {
    return gpu_read(group, content, io, verification);
  };
  for (const std::string io : {"pwrite", "uring-direct"}) {
    const std::size_t storage = group.add(raw_read(group.place(), content, {.io = io}, Target::kSink, cache_for(io)));
    against_halves(group, fmt::format("{} to the GPU", io), read(io, Verification::kNone), storage, copy);
    against_halves(group, fmt::format("{} to the GPU, CRC32 verified", io), read(io, Verification::kCrc32), storage,
                   copy);
  }
  std::vector<std::size_t> ways = {copy};
  if (const std::string io = device_path(); !io.empty()) {
    ways.push_back(group.add(device_read(group.place(), content, {.io = io})));
  }
  const std::string of_crc32 = "CRC32 on the GPU against the fastest route there";
  const std::string of_opened = "decryption on the GPU against 100 GB/s";
  if (const std::string& why = why_no_device_compute(); !why.empty()) {
    group.conclude(not_measured(of_crc32, 20, why));
    group.conclude(not_measured(of_opened, 1, why));
    return;
  }
  group.best_ratio({.item = "7", .name = of_crc32, .required = 20}, {group.add(ceiling(GpuRung::kCrc32, gpu_bytes))},
                   ways);
  const std::size_t opened = group.add(ceiling(GpuRung::kSecretbox, gpu_bytes));
  group.against({.item = "7", .name = of_opened, .required = 1}, {opened},
                [](std::span<const double>) { return 1 / kOpenedBytesPerSecond; });
}

void gpu_against_peer(CheckGroup& group) {
  const std::string name = "read to the GPU against tensorizer";
  if (!DeviceMemory::why_unavailable().empty()) return;  // gpu_memory has reported it
  std::string why;
  const Peers peers = start_peers("tensorizer", why);
  if (peers.empty()) return group.conclude(not_measured(name, 2, why));
  const auto content = group.content(large_tensors(group.options()));
  std::vector<std::size_t> ours = {gpu_read(group, content, "pwrite", Verification::kNone)};
  if (const std::string io = device_path(); !io.empty()) {
    ours.push_back(gpu_read(group, content, io, Verification::kNone));
  }
  const std::vector<std::size_t> theirs = peer_reads(group, content, peers, {}, {.into_device = true});
  group.best_ratio({.item = "7", .name = name, .required = 2, .note = "warm cache, same bytes, best of each side"},
                   ours, theirs);
}

}  // namespace tzmark::bench
