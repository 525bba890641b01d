// The JSON type of the suite, and how the JSON of an adapter is read.
//
// Thread-safety: pure functions and values.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace tzmark::conformance {

// Keeps members in document order, so that the first difference and every report follow the order of their author.
using Json = nlohmann::ordered_json;

// Every JSON that an adapter has reason to print is within these limits. They keep one that prints something else from
// exhausting the stack, the memory or the time of the runner.
inline constexpr int kJsonDepthMax = 32;
inline constexpr std::size_t kJsonMembersMax = 256;      // of one object
inline constexpr std::size_t kJsonValuesMax = 4u << 20;  // of the document, objects and arrays included

// Parses one document, in a time that grows with the length of the text alone. Throws std::runtime_error, with the
// reason, if the text is not one or is beyond the limits.
Json parse_untrusted_json(std::string_view text);

// A document of our own, such as those of the corpus. Throws EnvironmentError if the file is not one.
Json read_json(const std::filesystem::path& file);

// The document on one line, cut after about max_bytes. Bytes that are not UTF-8 are replaced.
std::string compact_dump(const Json& document, std::size_t max_bytes);

// Text on one line, cut alike: control characters become spaces.
std::string one_line(std::string_view text, std::size_t max_bytes);

}  // namespace tzmark::conformance
