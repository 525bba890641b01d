// Collects the defects of a file, and its fields where they are asked for.
//
// Thread-safety: one object belongs to one thread. It refers to the set of rules to leave out and to the list of
// fields.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "model/model.h"

namespace tzmark::conformance::model {

class Notes {
 public:
  explicit Notes(const std::set<std::string>& without, std::vector<Field>* fields = nullptr)
      : without_(&without), fields_(fields) {}

  // Its kind follows from the rule.
  void defect(std::string_view rule, std::optional<std::uint64_t> offset, std::string message);

  // An empty rule stands for text without an id that binds writers.
  void writer_defect(std::string_view rule, std::optional<std::uint64_t> offset, std::string message);

  // Whether a reader rejects the file for the defects so far.
  bool refused() const;

  // Appends the defects of another.
  void append(Notes&& other);

  const std::set<std::string>& without() const { return *without_; }
  std::vector<Field>* fields() const { return fields_; }  // null: no fields are collected
  std::vector<Defect>& defects() { return defects_; }

 private:
  const std::set<std::string>* without_;
  std::vector<Field>* fields_;
  std::vector<Defect> defects_;
};

}  // namespace tzmark::conformance::model
