// Small text files of /proc and /sys. Thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace tzmark::bench {

// Returns the whole text; nothing if the file cannot be read.
std::optional<std::string> read_text(const std::filesystem::path& path);
// The same without white space around it.
std::optional<std::string> read_value(const std::filesystem::path& path);
std::optional<std::uint64_t> read_number(const std::filesystem::path& path);

// Returns the trimmed text after the label and a colon ("MemTotal" of /proc/meminfo).
std::optional<std::string> labelled(std::string_view text, std::string_view label);

// Returns the word in brackets, by which sysfs marks the current choice: "always [madvise] never".
std::optional<std::string> chosen(std::string_view text);

}  // namespace tzmark::bench
