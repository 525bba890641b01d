// The judgement of a wrong reader; see caught.h.
#include "planted_bugs/caught.h"

#include <algorithm>

namespace tzmark::conformance::planted {
namespace {

bool accepts(const model::Description& description, bool (*refuses)(const model::Defect&)) {
  return std::ranges::none_of(description.defects, refuses);
}

}  // namespace

bool is_caught(const model::CorpusCase& item, const model::Description& description) {
  const bool decodes = accepts(description, model::refuses_decode);
  const bool verifies = accepts(description, model::refuses_verify);
  const auto differs = [&] { return nlohmann::json(description.document) != nlohmann::json(item.expected); };
  if (item.verdict == "valid") return !verifies || differs();
  if (item.verdict == "integrity-failure") return verifies || (decodes && differs());
  if (item.verdict == "implementation-defined") return decodes && !item.expected.is_null() && differs();
  return decodes;
}

}  // namespace tzmark::conformance::planted
