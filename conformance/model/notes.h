// Collects the defects of a file, and its fields where they are asked for.
//
// Thread-safety: one object belongs to one thread. It refers to the mistakes of the reader and to the list of fields.
#pragma once

#include <string>
#include <string_view>

#include "model/model.h"

namespace tzmark::conformance::model {

class Notes {
 public:
  explicit Notes(const Mistakes& mistakes, std::string_view layout = {}) : mistakes_(&mistakes), layout_(layout) {}

  // Empty notes of the same reading.
  Notes another(std::vector<Field>* fields = nullptr) const;

  // What the reader takes a number for.
  std::uint64_t number(const StructureId& structure, std::string_view field, Bytes bytes) const;

  // What the reader keeps the key of a derivation under.
  KeyDerivation key_kept_under(const KeyDerivation& derivation) const;

  // Its kind follows from the rule. Returns false if the reader ignores the defect.
  bool defect(Defect defect);

  void writer_defect(Defect defect);

  // Whether a reader rejects the file for the defects so far.
  bool refused() const;

  // Appends the defects of another.
  void append(Notes&& other);

  std::vector<Field>* fields() const { return fields_; }  // null: no fields are collected
  std::vector<Defect>& defects() { return defects_; }

 private:
  bool add(Defect defect);

  const Mistakes* mistakes_;
  std::string_view layout_;
  std::vector<Field>* fields_ = nullptr;
  std::vector<Defect> defects_;
};

}  // namespace tzmark::conformance::model
