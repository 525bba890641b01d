// The required answer for a safetensors file; see assess.h. What the written description refuses and the reference
// library takes is left to the reader.
#include <algorithm>
#include <cctype>
#include <functional>
#include <set>
#include <utility>

#include "model/text.h"
#include "mutation/choices.h"
#include "mutation/format_mutation.h"
#include "mutation/safetensors_draft.h"
#include "safetensors_model/describe.h"
#include "safetensors_model/describe_sharded.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr std::size_t kManyDims = 32;
// A number of so many digits is larger than any file of the corpus.
constexpr int kLargeDigits = 8;

bool is_refused(const model::Description& description) {
  return std::ranges::any_of(description.defects, model::refuses_decode);
}

// Whether the header of a file does.
bool claims_much(std::string_view file) {
  const std::uint64_t header_bytes =
      model::little_endian(std::as_bytes(std::span(file)).first(kSafetensorsLengthBytes));
  const std::string_view header = file.substr(kSafetensorsLengthBytes, header_bytes);
  int digits = 0;
  return std::ranges::any_of(header, [&](char c) {
    digits = std::isdigit(static_cast<unsigned char>(c)) ? digits + 1 : 0;
    return digits == kLargeDigits;
  });
}

std::vector<std::string> features_of(const Json& document, bool has_large_claim) {
  std::set<std::string> features;
  if (has_large_claim) features.insert("large-claim");
  for (const Json& tensor : document["tensors"]) {
    const std::string_view dtype = tensor["wire_dtype"].get_ref<const std::string&>();
    if (tensor["shape"].size() > kManyDims) features.insert("many-dims");
    if (dtype == "BF16" || dtype.starts_with("F8_")) features.insert("opaque-dtype");
    if (dtype == "F4" || dtype.starts_with("F6_")) features.insert("sub-byte-dtype");
  }
  return {features.begin(), features.end()};
}

void add_rules(const model::Description& description, std::vector<std::string>& rules) {
  for (const model::Defect& defect : description.defects) {
    if (std::ranges::find(rules, defect.rule) == rules.end()) rules.push_back(defect.rule);
  }
}

// Completes an assessment of which only the layout is known, by a description for each profile.
void judge(const std::function<model::Description(safetensors::Profile)>& describe, Assessment& assessment) {
  Case& item = assessment.item;
  item.verdict = Verdict::kInvalid;
  assessment.description = describe(safetensors::Profile::kSpec);
  add_rules(assessment.description, item.rules);
  const bool is_valid = !is_refused(assessment.description);
  const model::Description library = is_valid ? assessment.description : describe(safetensors::Profile::kLibrary);
  if (is_refused(library)) {
    add_rules(library, item.rules);
    return;
  }
  item.verdict = Verdict::kValid;
  if (!is_valid) {
    item.verdict = Verdict::kImplementationDefined;
    item.tier = "SHOULD";
    item.choice_name = kBeyondDescription;
    item.open_choice = open_choices().at(std::string(kBeyondDescription)).text;
    assessment.choices = {std::string(kBeyondDescription)};
  }
  assessment.expected = library.document;
}

}  // namespace

Assessment assess_safetensors(model::Bytes file, const std::optional<std::string>& key_hex,
                              const std::optional<std::string>& passphrase) {
  Assessment assessment = unread_assessment(file, key_hex, passphrase);
  assessment.item.layout = "safetensors";
  judge([&](safetensors::Profile profile) { return safetensors::describe(file, profile); }, assessment);
  if (!assessment.expected) return assessment;
  assessment.item.features = features_of(*assessment.expected, claims_much(model::text_of(file)));
  return assessment;
}

Assessment assess_sharded(model::Bytes index, const OpenShard& open_shard) {
  Assessment assessment = unread_assessment(index, std::nullopt, std::nullopt);
  assessment.item.layout = "safetensors-sharded";
  bool has_large_claim = false;
  const auto open = [&](const std::string& name) {
    std::string shard = open_shard(name);
    has_large_claim = has_large_claim || (shard.size() >= kSafetensorsLengthBytes && claims_much(shard));
    return std::optional(std::move(shard));
  };
  judge([&](safetensors::Profile profile) { return safetensors::describe_sharded(index, open, profile); }, assessment);
  if (assessment.expected) assessment.item.features = features_of(*assessment.expected, has_large_claim);
  return assessment;
}

}  // namespace tzmark::conformance::mutation
