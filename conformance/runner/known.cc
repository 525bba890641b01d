// Known failures; see known.h.
#include "runner/known.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "runner/errors.h"
#include "runner/file_content.h"
#include "runner/json.h"

namespace tzmark::conformance {
namespace {

// The result of a case, as const as the results are; nullptr if there is none.
template <typename Results>
auto result_of(Results& results, const std::string& id) -> decltype(results.data()) {
  const auto found = std::ranges::find_if(results, [&](const auto& each) { return each.item.id == id; });
  return found == results.end() ? nullptr : &*found;
}

bool in_corpus(const Manifest& manifest, const std::string& id) {
  return std::ranges::any_of(manifest.cases, [&](const Case& item) { return item.id == id; });
}

}  // namespace

std::vector<KnownFailure> load_known(const std::filesystem::path& file) {
  const Json document = read_json(file);
  std::vector<KnownFailure> known;
  std::set<std::string> ids;
  try {
    for (const Json& entry : document.at("known")) {
      known.push_back({entry.at("case").get<std::string>(), entry.at("outcome").get<std::string>(),
                       entry.at("reason").get<std::string>()});
      if (!ids.insert(known.back().id).second) {
        throw EnvironmentError(fmt::format("{}: a second entry of case '{}'", file.string(), known.back().id));
      }
    }
  } catch (const Json::exception& error) {
    throw EnvironmentError(fmt::format("{}: {}", file.string(), problem_of(error)));
  }
  return known;
}

void save_known(const std::filesystem::path& path, const std::vector<KnownFailure>& known) {
  std::string text = "{\"known\": [";
  const char* separator = "\n";
  for (const KnownFailure& failure : known) {
    const Json entry = {{"case", failure.id}, {"outcome", failure.outcome}, {"reason", failure.reason}};
    text += separator + (' ' + dump_line(entry));
    separator = ",\n";
  }
  write_output_file(path, text + "\n]}\n");
}

std::vector<std::string> apply_known(const std::vector<KnownFailure>& known, const Manifest& manifest,
                                     std::vector<CaseResult>& results) {
  std::vector<std::string> problems;
  for (const KnownFailure& failure : known) {
    CaseResult* const result = result_of(results, failure.id);
    if (!result) {
      if (!in_corpus(manifest, failure.id)) problems.push_back(failure.id + ": is not in the corpus any more");
    } else if (name_of(result->outcome) == failure.outcome && is_failure(result->outcome)) {
      result->known = failure.reason;
    } else {
      problems.push_back(
          fmt::format("{}: is known as {}, and now it is {}", failure.id, failure.outcome, name_of(result->outcome)));
    }
  }
  return problems;
}

std::vector<KnownFailure> fix_known(const std::vector<KnownFailure>& known, const Manifest& manifest,
                                    const std::vector<CaseResult>& results) {
  std::map<std::string, const KnownFailure*> listed;
  std::vector<KnownFailure> fixed;
  for (const KnownFailure& failure : known) {
    listed[failure.id] = &failure;
    if (!result_of(results, failure.id) && in_corpus(manifest, failure.id)) fixed.push_back(failure);
  }
  for (const CaseResult& result : results) {
    if (!is_failure(result.outcome)) continue;
    const auto found = listed.find(result.item.id);
    fixed.push_back({result.item.id, std::string(name_of(result.outcome)),
                     found == listed.end() || found->second->outcome != name_of(result.outcome)
                         ? result.reason
                         : found->second->reason});
  }
  return fixed;
}

}  // namespace tzmark::conformance
