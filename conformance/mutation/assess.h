// What a reader has to make of any file, as a case of the corpus: the model's opinion in the words of the manifest.
//
// Thread-safety: a pure function.
#pragma once

#include <optional>
#include <string>

#include "model/model.h"
#include "runner/manifest.h"

namespace tzmark::conformance::mutation {

struct Assessment {
  // Verdict, layout, features, rules, open_choice and the secret. Of a file that is refused, the rules are those that
  // it breaks, in the order in which a careful reader meets them; of one that breaks none, there are none.
  Case item;
  std::optional<Json> expected;  // canonical JSON, where a reader may accept the file and its content is clear
  model::Description description;
};

// Throws std::runtime_error where the machine fails: no memory to derive a key.
Assessment assess(model::Bytes file, const std::optional<std::string>& key_hex,
                  const std::optional<std::string>& passphrase);

}  // namespace tzmark::conformance::mutation
