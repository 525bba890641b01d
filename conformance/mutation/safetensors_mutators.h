// Changes safetensors files: raw, or so that the length of the header and the offsets of other tensors follow.
//
// Thread-safety: pure functions but for the random numbers.
#pragma once

#include "mutation/mutators.h"
#include "mutation/safetensors_draft.h"

namespace tzmark::conformance::mutation {

// Changes some bytes, and nothing that depends on them.
FileChange change_safetensors_raw(const Seed& seed, Random& random);

// REQUIRES: the draft is that of a file with an object.
FileChange change_safetensors(SafetensorsDraft draft, Random& random);

// Most are valid: the same or other content in another spelling, order or number. Returns what was changed, in words.
FilePart make_safetensors_neighbour(SafetensorsDraft& draft, Random& random, std::string& text);

}  // namespace tzmark::conformance::mutation
