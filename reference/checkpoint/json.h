// Strict reading of JSON members: a number that is out of range, or of another type, is an error and no other number.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "nlohmann/json.hpp"
#include "tzmark/error.h"

namespace tzmark::checkpoint {

using Json = nlohmann::json;

// None of the files nests deeper. Printing JSON needs stack in proportion to its depth.
inline constexpr int kDepthMax = 16;

// Does something with the JSON of a text; all that the library throws on the way becomes an Error of this code.
template <typename Action>
auto with_json(std::string_view text, ErrorCode code, Action&& action) {
  const auto check_depth = [code](int depth, Json::parse_event_t, Json&) {
    if (depth > kDepthMax) throw Error(code, fmt::format("it is nested more than {} deep", kDepthMax));
    return true;
  };
  try {
    return action(Json::parse(text, check_depth));
  } catch (const Json::exception& error) {
    throw Error(code, error.what());
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

// Made to be read by people too. Throws kUsage for text that is not UTF-8.
inline std::string spell(const Json& json) {
  try {
    return json.dump(2) + "\n";
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kUsage, error.what());
  }
}

}  // namespace tzmark::checkpoint
