// Where the format leaves a reader the choice, by FORMAT.md 11.2 and the implementation-defined cases of the corpus.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "model/model.h"

namespace tzmark::conformance::mutation {

// Of a file that is right but for its data version, which is 5 and should be 4. No writer emits one.
inline constexpr std::string_view kChoiceOfClassicVersion5 =
    "Whether data version 5 without feature flag 1 is read in the layout of v4, as tensorizer 2.12 does.";

// What is left to the reader in a file that the model takes; nothing if every reader has to take it.
// REQUIRES: the description is that of the file and has a document.
std::optional<std::string> choice_in_accepted(model::Bytes file, const model::Secret& secret,
                                              const model::Description& description);

struct OpenDefects {
  std::string choice;
  std::set<std::string> rules;  // that a reader may leave unchecked in this file
};

// The same of a file that the model refuses: nothing if a rule is broken that every reader checks.
// REQUIRES: alike, but that there is no document.
std::optional<OpenDefects> choice_in_refused(model::Bytes file, const model::Description& description);

}  // namespace tzmark::conformance::mutation
