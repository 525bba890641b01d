// Shows where a failure is in the file: which rule, at which byte, and the bytes around it by their meaning.
//
// Thread-safety: pure functions of their arguments.
#pragma once

#include <optional>
#include <span>

#include "model/model.h"
#include "runner/judge.h"
#include "runner/manifest.h"

namespace tzmark::conformance {

// The key of a case as the model takes it.
model::Secret secret_of(const Case& item);

// REQUIRES: the step failed. file is what was read, or what was written, and description what the model makes of it.
// Nothing if neither a rule nor a place is known.
std::optional<Explanation> explain(const Case& item, const Step& step, std::span<const std::byte> file,
                                   const model::Description& description);

}  // namespace tzmark::conformance
