// Names of tensors; see tensor_names.h.
#include "model/tensor_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "model/text.h"

namespace tzmark::conformance::model {
namespace {

constexpr char kStructuredMark = '\x1e';

ParsedName broken(ParsedName name, std::string_view rule, Clause clause) {
  name.broken_rule = rule;
  name.clause = clause;
  return name;
}

// Takes the elements of a list that a path may hold, and counts all others. The library's own callbacks would take a
// time that is quadratic in the length of the list, because they search it after each object inside.
class PathReader : public Json::json_sax_t {
 public:
  Path path;
  std::size_t left_out = 0;

  bool null() override { return leave_out(); }
  bool boolean(bool) override { return leave_out(); }
  bool number_integer(number_integer_t) override { return leave_out(); }
  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ == 1) path.emplace_back(value);
    return true;
  }
  bool number_float(number_float_t, const string_t&) override { return leave_out(); }
  bool string(string_t& value) override {
    if (depth_ == 1) path.emplace_back(std::move(value));
    return true;
  }
  bool binary(binary_t&) override { return leave_out(); }
  bool start_object(std::size_t) override { return enter(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override { return false; }

 private:
  bool leave_out() {
    ++left_out;
    return true;
  }
  bool enter() { return depth_++ == 0 || leave_out(); }
  bool leave() {
    --depth_;
    return true;
  }

  std::size_t depth_ = 0;
};

ParsedName parse_array(std::string_view text) {
  ParsedName name;
  name.structured = true;
  // The library stops at a NUL byte and passes over a byte order mark, as if neither were there.
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool begins = first != text.npos && text[first] == '[' && text.find('\0') == text.npos;
  PathReader reader;
  if (!begins || !Json::sax_parse(text, &reader)) {
    return broken(name, "TZR-NAM-002", Clause::kNoArray);
  }
  if (reader.left_out > 0) return broken(name, "TZR-NAM-002", Clause::kNoElement);
  name.path = std::move(reader.path);
  if (name.path->empty()) return broken(std::move(name), "TZR-NAM-003", Clause::kEmptyPath);
  if (text.find_first_of("\n\r") != text.npos) {
    return broken(std::move(name), "TZR-NAM-004", Clause::kNewline);
  }
  return name;
}

bool is_prefix(const Path& shorter, const Path& longer) {
  return shorter.size() < longer.size() && std::equal(shorter.begin(), shorter.end(), longer.begin());
}

// Whether the paths part with a string on one side and a list position on the other.
bool part_in_sort(const Path& a, const Path& b) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return in_a != a.end() && in_b != b.end() && in_a->index() != in_b->index();
}

}  // namespace

ParsedName parse_name(std::string_view text, std::uint64_t kind) {
  if (!is_utf8(text)) {
    ParsedName name;
    // What a reader that does not look would show.
    name.path = Path{std::string(text)};
    return broken(std::move(name), "TZR-NAM-001", Clause::kNotUtf8);
  }
  if (text.empty() || text[0] != kStructuredMark) {
    ParsedName name;
    name.path = Path{std::string(text)};
    return name;
  }
  ParsedName name = parse_array(text.substr(1));
  if (name.broken_rule.empty() && kind != 2) {
    return broken(std::move(name), "TZR-NAM-005", Clause::kPathKind);
  }
  return name;
}

Json to_json(const Path& path) {
  Json array = Json::array();
  for (const auto& element : path) {
    std::visit([&](const auto& value) { array.push_back(value); }, element);
  }
  return array;
}

std::string serialize_name(const Path& path) {
  const bool plain = path.size() == 1 && std::holds_alternative<std::string>(path[0]);
  if (plain) return std::get<std::string>(path[0]);
  std::string spelling = kStructuredMark + to_json(path).dump(-1, ' ', true);
  // The library leaves 7F as it is, and has short escapes for some control characters as JSON does.
  for (std::size_t at = spelling.find('\x7f'); at != spelling.npos; at = spelling.find('\x7f', at)) {
    spelling.replace(at, 1, "\\u007f");
  }
  return spelling;
}

std::vector<TreeDefect> tree_defects(const std::vector<std::optional<Path>>& paths) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (paths[i]) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return *paths[a] < *paths[b]; });
  // In this order every path is next to those that it may conflict with.
  std::vector<TreeDefect> defects;
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Path& before = *paths[order[i - 1]];
    const Path& here = *paths[order[i]];
    const auto add = [&](std::string_view rule, Clause clause) {
      defects.push_back({rule, clause, order[i], order[i - 1]});
    };
    if (before == here) {
      add("TZR-NAM-006", Clause::kSamePath);
    } else if (is_prefix(before, here)) {
      add("TZR-NAM-007", Clause::kPathInside);
    } else if (part_in_sort(before, here)) {
      add("TZR-NAM-008", Clause::kPathMixed);
    }
  }
  return defects;
}

}  // namespace tzmark::conformance::model
