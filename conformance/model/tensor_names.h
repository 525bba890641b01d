// Names of tensors: from stored bytes to paths, and whether paths form a tree.
//
// Thread-safety: pure functions and values.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/model.h"

namespace tzmark::conformance::model {

// List positions sort before strings.
using Path = std::vector<std::variant<std::uint64_t, std::string>>;

struct ParsedName {
  std::optional<Path> path;  // nothing where no path can be made of the name
  bool structured = false;
  std::string_view broken_rule = {};  // empty: the name is right
  std::string problem = {};
};

ParsedName parse_name(std::string_view name, std::uint64_t kind);

Json to_json(const Path& path);

// The bytes that a writer has to store for a path; for the empty path and the empty name too, which no writer may.
std::string writers_spelling(const Path& path);

struct TreeDefect {
  std::string_view rule;
  std::size_t tensor;  // index of the path that does not fit
  std::size_t other;   // into this one's tree
};

// All paths that are not leaves of one tree with those before them in the order of paths.
std::vector<TreeDefect> tree_defects(const std::vector<const Path*>& paths);

}  // namespace tzmark::conformance::model
