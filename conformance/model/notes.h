// Collects the fields and defects of a file.
//
// Thread-safety: one object belongs to one thread. It owns what it holds, and refers to the set of rules to leave out.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "model/model.h"

namespace tzmark::conformance::model {

class Notes {
 public:
  explicit Notes(const std::set<std::string>& without) : without_(&without) {}

  // Ignores fields without bytes.
  void field(Field field);

  // Its kind follows from the rule.
  void defect(std::string_view rule, std::optional<std::uint64_t> offset, std::string message);

  // An empty rule stands for text without an id that binds writers.
  void writer_defect(std::string_view rule, std::optional<std::uint64_t> offset, std::string message);

  // Whether a reader rejects the file for the defects so far.
  bool refused() const;

  // Appends the notes of another.
  void append(Notes&& other);

  const std::set<std::string>& without() const { return *without_; }
  std::vector<Field>& fields() { return fields_; }
  std::vector<Defect>& defects() { return defects_; }

 private:
  const std::set<std::string>* without_;
  std::vector<Field> fields_;
  std::vector<Defect> defects_;
};

}  // namespace tzmark::conformance::model
