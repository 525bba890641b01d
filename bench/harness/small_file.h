// The small text files by which the kernel tells about itself. Thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace tzmark::bench {

// The whole text; nothing if the file cannot be read.
std::optional<std::string> read_text(const std::filesystem::path& path);
// The text without white space at its end.
std::optional<std::string> read_value(const std::filesystem::path& path);
std::optional<std::uint64_t> read_number(const std::filesystem::path& path);

// What follows the label and a colon in a line of its own, without blanks around it ("MemTotal" of /proc/meminfo).
std::optional<std::string> labelled(std::string_view text, std::string_view label);

// The word in brackets, as sysfs shows what is chosen: "always [madvise] never".
std::optional<std::string> chosen(std::string_view text);

}  // namespace tzmark::bench
