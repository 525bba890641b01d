// The suite's own model of a safetensors model of several files: its index, and the shards that it names. It shares no
// code with the reference codec. Rules are those of SAFETENSORS.md.
//
// Thread-safety: a pure function of its arguments.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "model/model.h"
#include "safetensors_model/describe.h"

namespace tzmark::conformance::safetensors {

// The content of a file in the directory of the index; nothing if there is none of that name.
using OpenShard = std::function<std::optional<std::string>(const std::string& name)>;

// The defects of the index, or else of its shards, with offsets in the file that has them; and the content. It has no
// fields. without: rules whose checks are left out, as of a reader that lacks them. Throws std::runtime_error if a file
// that the index names is not there.
model::Description describe_sharded(model::Bytes index, const OpenShard& open_shard, Profile profile,
                                    const std::set<std::string>& without = {});

}  // namespace tzmark::conformance::safetensors
