// The required answer for a file of tensorizer; see assess.h.
#include "mutation/assess.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "model/tables.h"
#include "model/text.h"
#include "mutation/choices.h"
#include "mutation/format_mutation.h"
#include "runner/explain.h"

namespace tzmark::conformance::mutation {
namespace {

using model::Defect;
using model::Description;

constexpr std::size_t kManyDims = 32;
// The first byte of a structured name.
constexpr std::byte kStructured{0x1e};
// Memory that a reader may use for any file.
constexpr std::uint64_t kLargeClaimBytes = 1 << 24;

void add_rules(const Description& description, bool (*refuses)(const Defect&), std::vector<std::string>& rules) {
  for (const Defect& defect : description.defects) {
    if (refuses(defect) && std::ranges::find(rules, defect.rule) == rules.end()) {
      rules.push_back(defect.rule);
    }
  }
}

// Adds the defects that refuse a file in another reading of it.
void add_defects(const Description& other, Description& description) {
  for (const Defect& defect : other.defects) {
    const auto is_same = [&](const Defect& d) { return d.rule == defect.rule && d.offset == defect.offset; };
    if (!model::refuses_verify(defect) || std::ranges::any_of(description.defects, is_same)) continue;
    description.defects.push_back(defect);
  }
}

bool has(const Description& description, bool (*test)(const Defect&)) {
  return std::ranges::any_of(description.defects, test);
}

// Whether readers without the checks of these rules agree on the content of the file.
bool is_clear(const std::set<std::string>& rules) {
  static const std::set<std::string> harmless = {"TZR-IDX-012", "TZR-REC-004", "TZR-REC-006",
                                                 "TZR-CRY-015", "TZR-TRM-001", "TZR-TRM-002"};
  return rules.empty() || (rules.size() == 1 && harmless.contains(*rules.begin()));
}

// Whether the content of every tensor is known; it is not where the model derives no key.
bool is_complete(const Json& document) {
  return std::ranges::all_of(document["tensors"],
                             [](const Json& t) { return t["meta"] == true || !t["sha256"].is_null(); });
}

// As much as can be said where nothing is wrong with the structure.
Verdict verdict_of(const Description& description) {
  if (has(description, [](const Defect& d) { return d.kind == Defect::Kind::kStructure; })) return Verdict::kInvalid;
  if (has(description, model::refuses_decode)) return Verdict::kAuthenticationFailure;
  return has(description, model::refuses_verify) ? Verdict::kIntegrityFailure : Verdict::kValid;
}

// Rewrites a file of data version 5 without layout flags as one of data version 4; empty for other files.
std::vector<std::byte> as_data_version_4(model::Bytes file) {
  constexpr std::size_t kVersionAt = 5;
  constexpr std::size_t kFlagsAt = 9;
  if (file.size() <= kFlagsAt || model::little_endian(file.subspan(kVersionAt, 4)) != 5) return {};
  if ((std::to_integer<unsigned>(file[kFlagsAt]) & model::layout_flags(5)) != 0) return {};
  std::vector<std::byte> copy(file.begin(), file.end());
  copy[kVersionAt] = std::byte{4};
  return copy;
}

bool claims_much(const Json& tensor) {
  double elements = 1;
  for (const Json& dim : tensor["shape"])
    elements *= static_cast<double>(std::max<std::uint64_t>(dim.get<std::uint64_t>(), 1));
  return elements > static_cast<double>(kLargeClaimBytes);
}

std::vector<std::string> features_of(model::Bytes file, const Description& description, bool has_passphrase) {
  const Json& document = description.document;
  const auto any = [&](const auto& test) {
    return std::any_of(document["tensors"].begin(), document["tensors"].end(), test);
  };
  const auto wire = [](const Json& tensor) { return tensor["wire_dtype"].get<std::string>(); };
  const auto has_chunk = [&](char type) {
    return std::ranges::any_of(description.fields, [&](const model::Field& field) {
      return field.name == "chunk_type" && field.value.starts_with(type);
    });
  };
  std::vector<std::string> features;
  const auto add = [&](const char* feature, bool there) {
    if (there) features.emplace_back(feature);
  };
  add("big-endian", any([&](const Json& t) { return wire(t).starts_with('>') && !t["dtype"].is_null(); }));
  add("encryption", document["encrypted"] == true);
  add("foreign-dtype", any([](const Json& t) { return t["dtype"].is_null(); }));
  add("large-claim", any(claims_much));
  add("many-dims", any([](const Json& t) { return t["shape"].size() > kManyDims; }));
  add("meta", any([](const Json& t) { return t["meta"] == true; }));
  add("opaque-dtype", any([&](const Json& t) { return wire(t).find('\0') != std::string::npos; }));
  add("passphrase", has_passphrase || has_chunk('1'));
  add("sequential-cipher", has_chunk('3'));
  // Of a path of one string too, if it is stored as JSON.
  const bool structured = std::ranges::any_of(description.fields, [&](const model::Field& field) {
    return field.name == "name" && field.size > 0 && file[field.offset] == kStructured;
  });
  add("structured-names", structured);
  return features;
}

// REQUIRES: choices is not empty.
void leave_open(std::vector<std::string> choices, Assessment& assessment) {
  Case& item = assessment.item;
  item.verdict = Verdict::kImplementationDefined;
  item.tier = "SHOULD";
  item.choice_name = choices.front();
  item.open_choice = open_choices().at(choices.front()).text;
  assessment.choices = std::move(choices);
}

Assessment assess_as_it_is(model::Bytes file, const std::optional<std::string>& key_hex,
                           const std::optional<std::string>& passphrase) {
  Assessment assessment = unread_assessment(file, key_hex, passphrase);
  Case& item = assessment.item;
  const model::Secret secret = secret_of(item);
  assessment.description = model::describe(file, secret);
  Description& description = assessment.description;
  item.layout = description.layout.empty() ? "v1" : description.layout;
  item.verdict = verdict_of(description);
  add_rules(description, model::refuses_verify, item.rules);
  const Description* content = &description;
  Description lenient;
  std::set<std::string> open_rules;
  std::vector<std::string> choices;
  if (item.verdict == Verdict::kInvalid || item.verdict == Verdict::kAuthenticationFailure) {
    OpenDefects open = choices_in_refused(file, description);
    if (!open.rules.empty()) {
      lenient = model::describe(file, secret, open.rules);
      content = &lenient;
      open_rules = std::move(open.rules);
      item.verdict = verdict_of(lenient);
      // What readers that leave the open checks out refuse the file for.
      if (item.verdict != Verdict::kValid) {
        add_rules(lenient, model::refuses_verify, item.rules);
        add_defects(lenient, description);
      }
      choices = std::move(open.choices);
    }
  }
  if (content->document.is_null()) return assessment;
  if (item.verdict == Verdict::kValid) {
    std::ranges::move(choices_in_accepted(file, secret, *content), std::back_inserter(choices));
    if (!choices.empty()) leave_open(std::move(choices), assessment);
  }
  if (is_clear(open_rules) && is_complete(content->document)) assessment.expected = content->document;
  item.features = features_of(file, *content, passphrase.has_value());
  return assessment;
}

}  // namespace

Assessment assess_tensorizer(model::Bytes file, const std::optional<std::string>& key_hex,
                             const std::optional<std::string>& passphrase) {
  Assessment assessment = assess_as_it_is(file, key_hex, passphrase);
  const Verdict verdict = assessment.item.verdict;
  if (verdict != Verdict::kInvalid && verdict != Verdict::kIntegrityFailure) return assessment;
  std::vector<std::byte> classic = as_data_version_4(file);
  if (classic.empty()) return assessment;
  const Assessment other = assess_as_it_is(classic, key_hex, passphrase);
  const bool verifies = other.item.verdict == Verdict::kValid || other.item.verdict == Verdict::kImplementationDefined;
  if (!verifies && other.item.verdict != Verdict::kIntegrityFailure) return assessment;
  if (verifies) {
    const bool other_layout_decodes = verdict == Verdict::kIntegrityFailure;
    std::vector<std::string> choices = other.choices;
    choices.insert(choices.begin(), std::string(other_layout_decodes ? kClassicVersion5OfOneRecord : kClassicVersion5));
    leave_open(std::move(choices), assessment);
  } else {
    assessment.item.verdict = Verdict::kIntegrityFailure;
  }
  assessment.item.features = other.item.features;
  // Readers that see a broken file of another layout report its rules.
  if (assessment.item.layout != "v4") assessment.expected.reset();
  return assessment;
}

}  // namespace tzmark::conformance::mutation
