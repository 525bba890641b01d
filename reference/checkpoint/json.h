// Strict reading of JSON members: a number out of range or of another type is an error, and never converted.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "bytes/json_problem.h"
#include "nlohmann/json.hpp"
#include "tzmark/error.h"

namespace tzmark::checkpoint {

using Json = nlohmann::json;

// No file nests deeper. Printing JSON needs stack in proportion to its depth.
inline constexpr int kDepthMax = 16;
// Each parsed value takes some hundred bytes of memory, however short it is in the file.
inline constexpr std::uint64_t kValuesMax = 1 << 22;

// Throws for a text that nests too deep or has too many values. Exact up to the first byte that is not JSON, where the
// parser stops too. A parser callback would see the depth too, but takes time quadratic in the length of a list.
inline void check_bounds(std::string_view text, ErrorCode code) {
  int depth = 0;
  std::uint64_t values = 1;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDepthMax) throw Error(code, fmt::format("nested more than {} deep", kDepthMax));
      ++values;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ',') {
      ++values;
    }
    if (values > kValuesMax) throw Error(code, fmt::format("more than {} values", kValuesMax));
  }
}

// Parses a text and calls an action with it. Turns what the library throws into an Error with this code.
template <typename Action>
auto with_json(std::string_view text, ErrorCode code, Action&& action) {
  check_bounds(text, code);
  // The library stops at a NUL byte, which would hide all that follows it.
  if (text.find('\0') != text.npos) throw Error(code, "a NUL byte in JSON text");
  try {
    return action(Json::parse(text));
  } catch (const Json::exception& error) {
    throw Error(code, json_problem(error));
  }
}

inline const Json& member(const Json& object, const char* key, ErrorCode code) {
  if (!object.is_object()) throw Error(code, "an object is wanted");
  const auto found = object.find(key);
  if (found == object.end()) throw Error(code, fmt::format("{} is missing", key));
  return *found;
}

template <typename Unsigned>
Unsigned unsigned_of(const Json& value, const char* key, ErrorCode code) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<Unsigned>::max()) {
    throw Error(code, fmt::format("{} is not a number from 0 to {}", key, std::numeric_limits<Unsigned>::max()));
  }
  return value.get<Unsigned>();
}
template <typename Unsigned>
Unsigned unsigned_member(const Json& object, const char* key, ErrorCode code) {
  return unsigned_of<Unsigned>(member(object, key, code), key, code);
}

inline std::string string_member(const Json& object, const char* key, ErrorCode code) {
  const Json& value = member(object, key, code);
  if (!value.is_string()) throw Error(code, fmt::format("{} is not a string", key));
  return value.get<std::string>();
}

// Converts a member to a container. The library's text does not say which member is at fault.
template <typename Value>
Value container_member(const Json& object, const char* key, ErrorCode code) {
  try {
    return member(object, key, code).get<Value>();
  } catch (const Json::exception& error) {
    throw Error(code, fmt::format("{}: {}", key, json_problem(error)));
  }
}

// Serializes with indentation. Throws kUsage for text that is not UTF-8.
inline std::string serialize(const Json& json) {
  try {
    return json.dump(2) + "\n";
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kUsage, json_problem(error));
  }
}

}  // namespace tzmark::checkpoint
