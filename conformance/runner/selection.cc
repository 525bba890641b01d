// Which cases of a corpus to run; see selection.h.
#include "runner/selection.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "program/suggestion.h"
#include "runner/errors.h"
#include "runner/protocol.h"

namespace tzmark::conformance {
namespace {

bool excludes(const std::string& pattern) { return pattern.starts_with('!'); }

bool glob_matches(const std::string& pattern, const std::string& id) {
  return ::fnmatch(pattern.c_str() + (excludes(pattern) ? 1 : 0), id.c_str(), 0) == 0;
}

bool is_selected(const Case& item, const Selection& selection) {
  const auto& [ids, layouts, rules, quick] = selection;
  if (quick && is_large(item)) return false;
  bool included = std::ranges::all_of(ids, excludes);
  for (const std::string& pattern : ids) {
    if (!glob_matches(pattern, item.id)) continue;
    if (excludes(pattern)) return false;
    included = true;
  }
  const auto is_about = [&](const std::string& rule) {
    return std::ranges::find(item.rules, rule) != item.rules.end();
  };
  return included && (layouts.empty() || std::ranges::find(layouts, item.layout) != layouts.end()) &&
         (rules.empty() || std::ranges::any_of(rules, is_about));
}

std::vector<std::string> ids_of(const Manifest& manifest) {
  std::vector<std::string> ids;
  for (const Case& item : manifest.cases) ids.push_back(item.id);
  return ids;
}

// Patterns of whole families: "index-*" and "index-kind-*" for the case index-kind-3.
std::vector<std::string> families_of(const Manifest& manifest) {
  std::set<std::string> families;
  for (const Case& item : manifest.cases) {
    for (std::size_t end = item.id.find('-'); end != std::string::npos; end = item.id.find('-', end + 1)) {
      families.insert(item.id.substr(0, end + 1) + "*");
    }
  }
  return {families.begin(), families.end()};
}

void check_pattern(const Manifest& manifest, const std::string& pattern) {
  const auto matched = [&](const Case& item) { return glob_matches(pattern, item.id); };
  if (std::ranges::any_of(manifest.cases, matched)) return;
  const std::string glob = pattern.substr(excludes(pattern) ? 1 : 0);
  const bool literal = glob.find_first_of("*?[") == std::string::npos;
  throw UsageError(fmt::format("no case matches '{}'{}", pattern,
                               suggestion(glob, literal ? ids_of(manifest) : families_of(manifest))));
}

// The elements that a file of the format may name, and those of the corpus.
void check_layout(const Manifest& manifest, const std::string& layout) {
  std::set<std::string> layouts = known_layouts();
  for (const Case& item : manifest.cases) layouts.insert(item.layout);
  if (layouts.contains(layout)) return;
  throw UsageError(fmt::format("unknown layout '{}'{}", layout, suggestion(layout, {layouts.begin(), layouts.end()})));
}

void check_rule(const Manifest& manifest, const std::string& rule) {
  std::set<std::string> rules;
  for (const auto& [id, text] : manifest.rules) rules.insert(id);
  for (const Case& item : manifest.cases) rules.insert(item.rules.begin(), item.rules.end());
  if (rules.contains(rule)) return;
  throw UsageError(fmt::format("unknown rule '{}'{}", rule, suggestion(rule, {rules.begin(), rules.end()})));
}

}  // namespace

bool is_large(const Case& item) { return std::ranges::find(item.features, "large-file") != item.features.end(); }

std::vector<Case> select_cases(const Manifest& manifest, const Selection& selection) {
  for (const std::string& pattern : selection.ids) check_pattern(manifest, pattern);
  for (const std::string& layout : selection.layouts) check_layout(manifest, layout);
  for (const std::string& rule : selection.rules) check_rule(manifest, rule);
  std::vector<Case> cases;
  std::ranges::copy_if(manifest.cases, std::back_inserter(cases),
                       [&](const Case& item) { return is_selected(item, selection); });
  return cases;
}

const Case& find_case(const Manifest& manifest, const std::string& id) {
  const auto found = std::ranges::find(manifest.cases, id, &Case::id);
  if (found == manifest.cases.end()) {
    throw UsageError(fmt::format("the corpus has no case '{}'{}", id, suggestion(id, ids_of(manifest))));
  }
  return *found;
}

}  // namespace tzmark::conformance
