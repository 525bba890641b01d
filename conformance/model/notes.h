// Collects the defects of a file, and its fields where they are asked for.
//
// Thread-safety: one object belongs to one thread. It refers to what the reader ignores and to the list of fields.
#pragma once

#include <string>
#include <string_view>

#include "model/model.h"

namespace tzmark::conformance::model {

class Notes {
 public:
  explicit Notes(const Ignores& ignores, std::string_view layout = {}) : ignores_(&ignores), layout_(layout) {}

  // Empty notes of the same reading.
  Notes another(std::vector<Field>* fields = nullptr) const;

  // Its kind follows from the rule. Returns false if the reader ignores the defect.
  bool defect(std::string_view rule, std::optional<std::uint64_t> offset, std::string message);

  // An empty rule stands for text without an id that binds writers.
  void writer_defect(std::string_view rule, std::optional<std::uint64_t> offset, std::string message);

  // Whether a reader rejects the file for the defects so far.
  bool refused() const;

  // Appends the defects of another.
  void append(Notes&& other);

  std::vector<Field>* fields() const { return fields_; }  // null: no fields are collected
  std::vector<Defect>& defects() { return defects_; }

 private:
  bool add(Defect defect);

  const Ignores* ignores_;
  std::string_view layout_;
  std::vector<Field>* fields_ = nullptr;
  std::vector<Defect> defects_;
};

}  // namespace tzmark::conformance::model
