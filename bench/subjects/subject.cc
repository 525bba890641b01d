// Names, ids and clocks of subjects; see subject.h.
#include "subjects/subject.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "harness/device_counters.h"

namespace tzmark::bench {
namespace {

std::string size_text(std::uint64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{}MiB", bytes >> 20);
  if (bytes % (1 << 10) == 0) return fmt::format("{}KiB", bytes >> 10);
  return fmt::format("{}B", bytes);
}

std::uint64_t cpu_ns_of(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  const auto ns = [](const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_usec) * 1'000;
  };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

}  // namespace

std::string_view name_of(FileOperation operation) {
  switch (operation) {
    case FileOperation::kRead:
      return "read";
    case FileOperation::kWrite:
      return "write";
    case FileOperation::kOpen:
      break;
  }
  return "open";
}

std::string_view name_of(Cache cache) {
  switch (cache) {
    case Cache::kWarm:
      return "warm";
    case Cache::kCold:
      return "cold";
    case Cache::kDirect:
      return "direct";
    case Cache::kServer:
      return "server";
    case Cache::kNone:
      break;
  }
  return "none";
}

std::string_view name_of(Target target) {
  switch (target) {
    case Target::kHugePages:
      return "thp";
    case Target::kSmallPages:
      return "small-pages";
    case Target::kSink:
      return "sink";
    case Target::kDevice:
      break;
  }
  return "device";
}

std::string RunDescription::id() const {
  std::string text =
      fmt::format("{} {} {}", subject, name_of(operation), workload_label.empty() ? workload : workload_label);
  const auto add = [&](const std::string& word) {
    if (!word.empty()) text += " " + word;
  };
  add(detail);
  add(io_requested);
  if (layout) add(*layout);
  if (block_bytes) add(size_text(*block_bytes));
  if (queue_depth) add(fmt::format("d{}", *queue_depth));
  if (threads) add(fmt::format("t{}", *threads));
  if (verification != "none") add(verification);
  if (encrypted) add("encrypted");
  if (operation == FileOperation::kRead) {
    add(std::string(name_of(cache)));
  }
  const bool is_new = target == Target::kHugePages || target == Target::kSmallPages;
  if (!is_new && operation != FileOperation::kOpen) add(std::string(name_of(target)));
  if (pages) add(fmt::format("{}-pages", name_of(*pages)));
  if (!group.empty()) add("for " + group);
  return text;
}

void Subject::see_pages(std::optional<double> huge_share) {
  std::optional<double>& kept = description_.huge_share;
  if (!huge_share || !description_.pages) return;
  kept = *description_.pages == Pages::kHuge ? std::min(kept.value_or(1), *huge_share)
                                             : std::max(kept.value_or(0), *huge_share);
}

std::uint64_t cpu_now_ns() { return cpu_ns_of(RUSAGE_SELF); }
std::uint64_t cpu_of_children_ns() { return cpu_ns_of(RUSAGE_CHILDREN); }

RunTimer::RunTimer(const std::string& directory) : directory_(directory) {
  if (const auto device = directory_.empty() ? std::nullopt : device_counters(directory_)) {
    device_read_bytes_ = device->read_bytes;
    device_written_bytes_ = device->written_bytes;
  }
  cpu_ns_ = cpu_now_ns();
  begin_ = std::chrono::steady_clock::now();
}

void RunTimer::stop(Sample& sample) const {
  sample.elapsed_ns =
      static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin_) / std::chrono::nanoseconds(1));
  sample.cpu_ns = cpu_now_ns() - cpu_ns_;
}

void RunTimer::stop_device(Sample& sample) const {
  const auto device = device_counters(directory_);
  if (!device || !device_read_bytes_) return;
  sample.device_read_bytes = device->read_bytes - *device_read_bytes_;
  sample.device_written_bytes = device->written_bytes - *device_written_bytes_;
}

}  // namespace tzmark::bench
