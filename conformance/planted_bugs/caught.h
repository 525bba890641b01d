// Whether the answer of a wrong reader differs from what the manifest allows.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "model/corpus_files.h"
#include "model/model.h"

namespace tzmark::conformance::planted {

// What larger files have to show, they show of buffers, and their fields take much memory.
inline constexpr std::uint64_t kFileBytesMax = 1 << 20;

// Whether a reader that finds this in the file of a case gives an answer that the manifest does not allow.
bool is_caught(const model::CorpusCase& item, const model::Description& description);

}  // namespace tzmark::conformance::planted
