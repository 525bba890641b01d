// The suite's own model of a safetensors file: the field of every byte, all defects, and the content. It shares no code
// with the reference codec. Rules are those of SAFETENSORS.md.
//
// Thread-safety: pure functions and values.
#pragma once

#include <set>
#include <string>

#include "model/model.h"

namespace tzmark::conformance::safetensors {

// The written description, or what the reference library accepts beyond it (SAFETENSORS.md 2).
enum class Profile { kSpec, kLibrary };

// The structure of all fields of a tensor is "tensor N", by the order of their data. without: rules whose checks are
// left out, as of a reader that lacks them; where no reader could go on, the reading ends there.
model::Description describe(model::Bytes file, Profile profile, const std::set<std::string>& without = {});

// The same without the content, so that no data is read.
model::Outline describe_structure(model::Bytes file, Profile profile, const std::set<std::string>& without = {});

}  // namespace tzmark::conformance::safetensors
