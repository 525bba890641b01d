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
  std::optional<Path> path;  // nothing if the name has no path
  bool structured = false;
  std::string_view broken_rule = {};  // empty: the name is valid
  Clause clause = {};                 // of that rule
};

ParsedName parse_name(std::string_view name, std::uint64_t kind);

Json to_json(const Path& path);

// Serializes a path as a writer must store it, even the empty path and the empty name, which no writer may store.
std::string serialize_name(const Path& path);

struct TreeDefect {
  std::string_view rule;
  Clause clause;
  std::size_t tensor;  // index of the path that does not fit
  std::size_t other;   // into this one's tree
};

// All paths that, in their order, are not leaves of one tree with the paths before them.
std::vector<TreeDefect> tree_defects(const std::vector<std::optional<Path>>& paths);

}  // namespace tzmark::conformance::model
