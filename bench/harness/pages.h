// Sizes of the pages that memory really has, from smaps. Filling new memory and direct transfers take several times as
// long in small pages, so a result says which it had.
//
// Thread-safe; functions throw only std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tzmark::bench {

enum class Pages : std::uint8_t { kHuge, kSmall };

std::string_view name_of(Pages pages);  // "huge", "small"

// Setting of glibc with which malloc asks for the kind of pages, as "NAME=VALUE" for the environment.
std::string malloc_setting(Pages pages);

// The part of the anonymous memory of a range that is in huge pages, by whole mappings. Nothing if none of it is
// touched. smaps: the text of /proc/PID/smaps.
std::optional<double> huge_share(std::string_view smaps, std::uintptr_t begin, std::size_t bytes);
// The same of this process.
std::optional<double> huge_share(std::span<const std::byte> memory);

struct PageCount {
  std::uint64_t anonymous_bytes = 0, huge_bytes = 0;

  std::optional<double> huge_share() const;
};
// All mappings with at least that many touched bytes: the buffers of another program.
PageCount count_large(std::string_view smaps, std::size_t bytes_min);

// "huge" from nine tenths, "small" up to one tenth, "mixed" between.
std::string_view kind_of(double huge_share);

}  // namespace tzmark::bench
