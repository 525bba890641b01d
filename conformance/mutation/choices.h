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

// For a correct file of data version 4 whose data version is 5. No writer emits one.
inline constexpr std::string_view kChoiceOfClassicVersion5 =
    "Whether data version 5 without feature flag 1 is read in the layout of v4, as tensorizer 2.12 does.";

// The choice that a file which the model accepts leaves to the reader; nothing if every reader must accept it.
// REQUIRES: the description is that of the file and has a document.
std::optional<std::string> choice_in_accepted(model::Bytes file, const model::Secret& secret,
                                              const model::Description& description);

struct OpenDefects {
  std::string choice;
  std::set<std::string> rules;  // that a reader need not check in this file
};

// The same for a file that the model rejects: nothing if it breaks a rule that every reader checks.
// REQUIRES: the description is that of the file and has no document.
std::optional<OpenDefects> choice_in_refused(model::Bytes file, const model::Description& description);

}  // namespace tzmark::conformance::mutation
