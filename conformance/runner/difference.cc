// Compares canonical JSON; see difference.h.
#include "runner/difference.h"

#include <algorithm>
#include <cstdint>

namespace tzmark::conformance {
namespace {

// A name as a token of a JSON pointer (RFC 6901).
std::string pointer_token(const std::string& name) {
  std::string token = "/";
  for (const char c : name) {
    if (c == '~') {
      token += "~0";
    } else if (c == '/') {
      token += "~1";
    } else {
      token += c;
    }
  }
  return token;
}

bool is_negative(const Json& integer) { return !integer.is_number_unsigned() && integer.get<std::int64_t>() < 0; }

// The library compares numbers of different types by converting them: -1 would equal 2^64 - 1, and 2.0 would equal 2.
bool same_scalar(const Json& expected, const Json& got) {
  if (expected.is_number_integer() && got.is_number_integer()) {
    return is_negative(expected) == is_negative(got) && expected == got;
  }
  return expected.type() == got.type() && expected == got;
}

class DocumentDiff {
 public:
  explicit DocumentDiff(const std::set<std::string>& may_omit) : may_omit_(may_omit) {}

  std::optional<Difference> compare(const Json& expected, const Json& got, const std::string& pointer) const {
    if (expected.is_object() && got.is_object()) return compare_objects(expected, got, pointer);
    if (expected.is_array() && got.is_array()) return compare_arrays(expected, got, pointer);
    if (same_scalar(expected, got)) return std::nullopt;
    return Difference{pointer, expected, got};
  }

 private:
  std::optional<Difference> compare_objects(const Json& expected, const Json& got, const std::string& pointer) const {
    for (const auto& [name, value] : expected.items()) {
      const auto found = got.find(name);
      if (found == got.end()) {
        if (may_omit_.contains(name)) continue;
        return Difference{pointer + pointer_token(name), value, std::nullopt};
      }
      if (auto difference = compare(value, *found, pointer + pointer_token(name))) return difference;
    }
    for (const auto& [name, value] : got.items()) {
      if (!expected.contains(name)) return Difference{pointer + pointer_token(name), std::nullopt, value};
    }
    return std::nullopt;
  }

  std::optional<Difference> compare_arrays(const Json& expected, const Json& got, const std::string& pointer) const {
    const std::size_t common = std::min(expected.size(), got.size());
    for (std::size_t i = 0; i < common; ++i) {
      if (auto difference = compare(expected[i], got[i], pointer + "/" + std::to_string(i))) return difference;
    }
    const std::string next = pointer + "/" + std::to_string(common);
    if (expected.size() > common) return Difference{next, expected[common], std::nullopt};
    if (got.size() > common) return Difference{next, std::nullopt, got[common]};
    return std::nullopt;
  }

  const std::set<std::string>& may_omit_;
};

}  // namespace

std::optional<Difference> first_difference(const Json& expected, const Json& got,
                                           const std::set<std::string>& may_omit) {
  return DocumentDiff(may_omit).compare(expected, got, "");
}

}  // namespace tzmark::conformance
