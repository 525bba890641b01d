// The required answer for a safetensors file; see assess.h. What the written description refuses and the reference
// library takes is left to the reader.
#include <algorithm>
#include <cctype>
#include <set>

#include "model/text.h"
#include "mutation/choices.h"
#include "mutation/format_mutation.h"
#include "mutation/safetensors_draft.h"
#include "safetensors_model/describe.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr std::size_t kManyDims = 32;
// A number of so many digits is larger than any file of the corpus.
constexpr int kLargeDigits = 8;

bool is_refused(const model::Description& description) {
  return std::ranges::any_of(description.defects, model::refuses_decode);
}

bool claims_much(std::string_view header) {
  int digits = 0;
  return std::ranges::any_of(header, [&](char c) {
    digits = std::isdigit(static_cast<unsigned char>(c)) ? digits + 1 : 0;
    return digits == kLargeDigits;
  });
}

std::vector<std::string> features_of(model::Bytes file, const Json& document) {
  std::set<std::string> features;
  const std::uint64_t header_bytes = model::little_endian(file.first(kSafetensorsLengthBytes));
  if (claims_much(model::text_of(file.subspan(kSafetensorsLengthBytes, header_bytes)))) features.insert("large-claim");
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

}  // namespace

Assessment assess_safetensors(model::Bytes file, const std::optional<std::string>& key_hex,
                              const std::optional<std::string>& passphrase) {
  Assessment assessment = unread_assessment(file, key_hex, passphrase);
  Case& item = assessment.item;
  item.layout = "safetensors";
  item.verdict = Verdict::kInvalid;
  assessment.description = safetensors::describe(file, safetensors::Profile::kSpec);
  add_rules(assessment.description, item.rules);
  const bool is_valid = !is_refused(assessment.description);
  const model::Description library =
      is_valid ? assessment.description : safetensors::describe(file, safetensors::Profile::kLibrary);
  if (is_refused(library)) {
    add_rules(library, item.rules);
    return assessment;
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
  item.features = features_of(file, library.document);
  return assessment;
}

}  // namespace tzmark::conformance::mutation
