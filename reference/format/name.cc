// Parsing and serializing tensor names.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bytes/utf8.h"
#include "format/name_elements.h"
#include "tzmark/error.h"
#include "tzmark/path.h"

namespace tzmark {
namespace {

using nlohmann::json;

// Receives the parser's events: refuses a hostile document at its first invalid element, without building a tree.
class PathHandler final : public json::json_sax_t {
 public:
  explicit PathHandler(const std::function<void(PathElement&&)>& take) : take_(take) {}

  std::string problem;
  bool empty = true;

  bool start_array(std::size_t) override {
    if (inside_) return refuse("an array as an element");
    inside_ = true;
    return true;
  }
  bool end_array() override { return true; }
  bool string(std::string& value) override {
    if (!inside_) return refuse("no array");
    return take(std::move(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!inside_) return refuse("no array");
    return take(static_cast<std::uint64_t>(value));
  }
  bool null() override { return refuse("null as an element"); }
  bool boolean(bool) override { return refuse("a boolean as an element"); }
  bool number_integer(number_integer_t) override { return refuse("a negative number as an element"); }
  bool number_float(number_float_t, const string_t&) override {
    return refuse("a number that is not an integer below 2^64 as an element");
  }
  bool binary(binary_t&) override { return refuse("binary data"); }
  bool start_object(std::size_t) override { return refuse("an object"); }
  bool end_object() override { return true; }
  bool key(string_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return refuse("an invalid JSON array");
  }

 private:
  bool take(PathElement&& element) {
    empty = false;
    take_(std::move(element));
    return true;
  }
  bool refuse(std::string_view what) {
    if (problem.empty()) problem = what;
    return false;
  }
  const std::function<void(PathElement&&)>& take_;
  bool inside_ = false;
};

}  // namespace

void for_each_element(std::string_view wire, std::uint64_t file_offset,
                      const std::function<void(PathElement&&)>& take) {
  const std::string_view document = wire.substr(1);
  if (document.find_first_of("\n\r") != std::string_view::npos) {
    throw Error(ErrorCode::kNameNewline, "", file_offset);
  }
  // The library stops at a NUL byte and skips a byte order mark, which would hide bytes after or before the array.
  const std::size_t begin = document.find_first_not_of(" \t");
  const bool has_control = document.find('\0') != std::string_view::npos;
  if (begin == std::string_view::npos || document[begin] != '[' || has_control) {
    throw Error(ErrorCode::kNameJson, "a structured name that is not a JSON array", file_offset);
  }
  PathHandler handler(take);
  if (!json::sax_parse(document, &handler)) {
    throw Error(ErrorCode::kNameJson, fmt::format("a structured name with {}", handler.problem), file_offset);
  }
  if (handler.empty) throw Error(ErrorCode::kNameEmptyPath, "", file_offset);
}

Path parse_name(std::string_view wire, std::uint64_t file_offset) {
  if (const auto bad = find_invalid_utf8(wire)) {
    throw Error(ErrorCode::kNameUtf8, "a name is not valid UTF-8", file_offset + *bad);
  }
  if (!wire.starts_with(kStructuredNameMark)) return {std::string(wire)};
  Path path;
  for_each_element(wire, file_offset, [&](PathElement&& element) { path.push_back(std::move(element)); });
  return path;
}

std::optional<std::string> structured_name(const Path& path) {
  json array = json::array();
  for (const PathElement& element : path) {
    std::visit([&](const auto& value) { array.push_back(value); }, element);
  }
  try {
    return kStructuredNameMark + array.dump(-1, ' ', /*ensure_ascii=*/true);
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::string serialize_name(const Path& path) {
  if (path.empty()) throw Error(ErrorCode::kNameUnwritable, "an empty path cannot be written");
  if (const auto* plain = std::get_if<std::string>(path.data()); plain != nullptr && path.size() == 1) {
    if (plain->empty()) throw Error(ErrorCode::kNameUnwritable, "an empty name cannot be written");
    if (plain->front() == kStructuredNameMark) {
      throw Error(ErrorCode::kNameUnwritable,
                  "a plain name that begins with byte 1E would be parsed as a structured one");
    }
    if (find_invalid_utf8(*plain)) throw Error(ErrorCode::kNameUtf8, "a name is not valid UTF-8");
    return *plain;
  }
  if (auto name = structured_name(path)) return *std::move(name);
  throw Error(ErrorCode::kNameUtf8, "an element of a path is not valid UTF-8");
}

std::string display_path(const Path& path) {
  std::string text;
  for (const PathElement& element : path) {
    if (const auto* index = std::get_if<std::uint64_t>(&element)) {
      text += fmt::format("[{}]", *index);
    } else {
      if (!text.empty()) text += '.';
      text += std::get<std::string>(element);
    }
  }
  return text;
}

}  // namespace tzmark
