// The cases of the built corpus, for the tests of the model.
//
// Thread-safety: values; the functions may be called from several threads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/model.h"

namespace tzmark::conformance::model {

struct CorpusCase {
  std::string id;
  std::filesystem::path file;
  std::string verdict;
  std::set<std::string> rules;
  Secret secret;
  Json expected;  // null if the case has none
};

// Those of TZMARK_BUILD_DIR. Throws if it cannot be read or holds none.
std::vector<CorpusCase> corpus_cases();

// Its rules.json.
Json corpus_rules();

std::vector<std::byte> bytes_of(const std::filesystem::path& file);

}  // namespace tzmark::conformance::model
