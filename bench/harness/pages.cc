// Reads smaps; see pages.h.
#include "harness/pages.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "harness/small_file.h"

namespace tzmark::bench {
namespace {

struct Mapping : PageCount {
  std::uintptr_t begin = 0, end = 0;
};

// "7f0000000000-7f0000400000 rw-p 00000000 00:00 0"
std::optional<Mapping> heading(std::string_view line) {
  Mapping mapping;
  const char* const last = line.data() + line.size();
  const auto [dash, error] = std::from_chars(line.data(), last, mapping.begin, 16);
  if (error != std::errc() || dash == last || *dash != '-') return {};
  const auto [blank, second_error] = std::from_chars(dash + 1, last, mapping.end, 16);
  if (second_error != std::errc() || blank == last || *blank != ' ') return {};
  return mapping;
}

// "AnonHugePages:    2048 kB"
std::optional<std::uint64_t> bytes_after(std::string_view line, std::string_view label) {
  if (!line.starts_with(label)) return {};
  line.remove_prefix(std::min(line.size(), line.find_first_of("0123456789")));
  std::uint64_t kilobytes = 0;
  std::from_chars(line.data(), line.data() + line.size(), kilobytes);
  return kilobytes * 1024;
}

std::vector<Mapping> mappings(std::string_view smaps) {
  std::vector<Mapping> list;
  while (!smaps.empty()) {
    const std::string_view line = smaps.substr(0, smaps.find('\n'));
    smaps.remove_prefix(std::min(smaps.size(), line.size() + 1));
    if (const auto next = heading(line)) {
      list.push_back(*next);
    } else if (list.empty()) {
      continue;
    } else if (const auto anonymous = bytes_after(line, "Anonymous:")) {
      list.back().anonymous_bytes = *anonymous;
    } else if (const auto huge = bytes_after(line, "AnonHugePages:")) {
      list.back().huge_bytes = *huge;
    }
  }
  return list;
}

template <typename Wanted>
PageCount sum(std::string_view smaps, const Wanted& wanted) {
  PageCount all;
  for (const Mapping& mapping : mappings(smaps)) {
    if (!wanted(mapping)) continue;
    all.anonymous_bytes += mapping.anonymous_bytes;
    all.huge_bytes += mapping.huge_bytes;
  }
  return all;
}

}  // namespace

std::string_view name_of(Pages pages) { return pages == Pages::kHuge ? "huge" : "small"; }

std::string malloc_setting(Pages pages) {
  return pages == Pages::kHuge ? "GLIBC_TUNABLES=glibc.malloc.hugetlb=1" : "GLIBC_TUNABLES=glibc.malloc.hugetlb=0";
}

std::optional<double> huge_share(std::string_view smaps, std::uintptr_t begin, std::size_t bytes) {
  const auto overlaps = [&](const Mapping& mapping) { return mapping.begin < begin + bytes && begin < mapping.end; };
  return sum(smaps, overlaps).huge_share();
}

std::optional<double> huge_share(std::span<const std::byte> memory) {
  return huge_share(read_text("/proc/self/smaps").value_or(""), reinterpret_cast<std::uintptr_t>(memory.data()),
                    memory.size());
}

std::optional<double> PageCount::huge_share() const {
  if (anonymous_bytes == 0) return {};
  return static_cast<double>(huge_bytes) / static_cast<double>(anonymous_bytes);
}

PageCount count_large(std::string_view smaps, std::size_t bytes_min) {
  return sum(smaps, [&](const Mapping& mapping) { return mapping.anonymous_bytes >= bytes_min; });
}

std::string_view kind_of(double huge_share) {
  if (huge_share >= 0.9) return "huge";
  return huge_share <= 0.1 ? "small" : "mixed";
}

}  // namespace tzmark::bench
