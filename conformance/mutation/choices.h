// Where a format leaves a reader the choice, by FORMAT.md 11.2, SAFETENSORS.md 2 and the implementation-defined cases
// of the two corpora.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"
#include "runner/manifest.h"

namespace tzmark::conformance::mutation {

// All choices by their names, as the manifests of the corpora have them.
const std::map<std::string, OpenChoice>& open_choices();

// Of safetensors: for a file that the description refuses and the reference library takes.
inline constexpr std::string_view kBeyondDescription = "beyond-description";

// For a correct file of data version 4 whose data version is 5. No writer emits one.
inline constexpr std::string_view kClassicVersion5 = "v4-as-v5";
// For such a file that is also one of v5-headers-first with wrong hashes.
inline constexpr std::string_view kClassicVersion5OfOneRecord = "v4-as-v5-one-record";

// The least that no reader derives a key with, by FORMAT.md 10.2.
inline constexpr std::uint64_t kRefusedOpslimit = UINT32_MAX;
inline constexpr std::uint64_t kRefusedMemlimitBytes = std::uint64_t{8} << 30;

// The names of the choices that a file which the model accepts leaves to the reader; none if every reader must accept
// it.
// REQUIRES: the description is that of the file and has a document.
std::vector<std::string> choices_in_accepted(model::Bytes file, const model::Secret& secret,
                                             const model::Description& description);

struct OpenDefects {
  std::vector<std::string> choices;
  std::set<std::string> rules;  // that a reader need not check in this file
};

// The same for a file that the model rejects: no choices if it breaks a rule that every reader checks.
// REQUIRES: the description is that of the file and has no document.
OpenDefects choices_in_refused(model::Bytes file, const model::Description& description);

}  // namespace tzmark::conformance::mutation
