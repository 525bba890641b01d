// The JSON type of the suite, and the limits of JSON from adapters.
//
// Thread-safety: pure functions and values.
#pragma once

#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tzmark::conformance {

// Keeps members in document order, so that differences and reports follow it.
using Json = nlohmann::ordered_json;

// No correct answer exceeds these limits. They keep other output from exhausting the stack, memory or time of the
// runner.
inline constexpr int kJsonDepthMax = 32;
inline constexpr std::size_t kJsonMembersMax = 256;      // of one object
inline constexpr std::size_t kJsonValuesMax = 4u << 20;  // of the document, objects and arrays included

// The text of an exception, without the names and numbers that the JSON library gives its own: "type must be ...".
std::string problem_of(const std::exception& error);

// Parses one document, in linear time. Throws std::runtime_error with the reason if the text is not one, or exceeds the
// limits.
Json parse_untrusted_json(std::string_view text);

// Reads a trusted document that the user named. Throws EnvironmentError if the file is not one; never waits for another
// process.
Json read_json(const std::filesystem::path& file);

// The same for what was read of it already.
Json parse_json(std::string_view text, const std::filesystem::path& file);

// The text of a document on one line, or on lines of its own with the last one ended. Bytes that are not UTF-8, as
// adapters may print, are replaced.
std::string dump_line(const Json& document);
std::string dump_lines(const Json& document);

// One line, cut after about max_bytes.
std::string compact_dump(const Json& document, std::size_t max_bytes);

// Text on one line, cut in the same way: control characters become spaces.
std::string one_line(std::string_view text, std::size_t max_bytes);

inline Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }
template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace tzmark::conformance
