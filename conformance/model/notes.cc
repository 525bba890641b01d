// What a walk through a file finds; see notes.h.
#include "model/notes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "model/text.h"

namespace tzmark::conformance::model {
namespace {

Defect::Kind kind_of(std::string_view rule) {
  static const std::set<std::string_view> authentication = {"TZR-CRY-015", "TZR-CRY-016", "TZR-CRY-017", "TZR-CRY-018",
                                                            "TZR-CRY-019"};
  static const std::set<std::string_view> integrity = {"TZR-HSH-004", "TZR-HSH-005", "TZR-HSH-006"};
  if (authentication.contains(rule)) return Defect::Kind::kAuthentication;
  return integrity.contains(rule) ? Defect::Kind::kIntegrity : Defect::Kind::kStructure;
}

}  // namespace

Notes Notes::another(std::vector<Field>* fields) const {
  Notes notes(*mistakes_, layout_);
  notes.fields_ = fields;
  return notes;
}

bool Notes::add(Defect defect) {
  if (mistakes_->ignores(defect, layout_)) return false;
  defects_.push_back(std::move(defect));
  return true;
}

std::uint64_t Notes::number(const StructureId& structure, std::string_view field, Bytes bytes) const {
  const std::uint64_t number = little_endian(bytes);
  return mistakes_->misreads ? mistakes_->misreads({layout_, structure, field, bytes.size()}, number) : number;
}

KeyDerivation Notes::key_kept_under(const KeyDerivation& derivation) const {
  return mistakes_->keeps_key_under ? mistakes_->keeps_key_under(derivation) : derivation;
}

bool Notes::defect(Defect defect) {
  defect.kind = kind_of(defect.rule);
  return add(std::move(defect));
}

void Notes::writer_defect(Defect defect) {
  defect.kind = Defect::Kind::kWriter;
  add(std::move(defect));
}

bool Notes::refused() const { return std::any_of(defects_.begin(), defects_.end(), refuses_decode); }

void Notes::append(Notes&& other) {
  std::move(other.defects_.begin(), other.defects_.end(), std::back_inserter(defects_));
}

}  // namespace tzmark::conformance::model
