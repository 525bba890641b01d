// The required answer for any file, as a case of the corpus: the judgement of the model in terms of the manifest.
//
// Thread-safety: a pure function.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "model/model.h"
#include "runner/file_format.h"
#include "runner/manifest.h"

namespace tzmark::conformance::mutation {

struct Assessment {
  // Verdict, layout, features, rules, the choice and the secret. The rules are those that the file breaks, in the
  // order in which a careful reader meets them.
  Case item;
  std::vector<std::string> choices;  // all that the file leaves to the reader, by their names; the case has the first
  std::optional<Json> expected;      // canonical JSON, if a reader may accept the file and its content is unambiguous
  model::Description description;
};

// Throws std::runtime_error if there is no memory to derive a key.
Assessment assess(const FileFormat& format, model::Bytes file, const std::optional<std::string>& key_hex,
                  const std::optional<std::string>& passphrase);

// The content of a file next to an index of shards. It throws what the caller is to get if there is none.
using OpenShard = std::function<std::string(const std::string& name)>;

// The same for the index of a safetensors model of several files.
Assessment assess_sharded(model::Bytes index, const OpenShard& open_shard);

}  // namespace tzmark::conformance::mutation
