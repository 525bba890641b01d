// Minimizes a file, structure by structure, while some property of it holds.
// Removes whole tensors first, then data and shapes, names, hashes, chunks and gaps, and deviations. Each candidate is
// consistent (consistent.h): it has no faults but those of the file. If the model finds no structure, removes bytes.
//
// Thread-safety: minimize() may run in several threads at once if what it calls may.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "model/model.h"
#include "runner/file_format.h"

namespace tzmark::conformance::mutation {

// Whether a candidate still has the property. Called in this thread, at most once per candidate.
using StillHolds = std::function<bool(model::Bytes candidate)>;

struct MinimizeOptions {
  // After that, tries no further candidate.
  std::chrono::nanoseconds elapsed_max = std::chrono::minutes(10);
};

struct Minimized {
  std::vector<std::byte> file;  // the file itself if no smaller one has the property
  std::size_t candidates = 0;   // that were tried
  bool finished = false;        // nothing more can be removed; else the time ran out
};

// REQUIRES: still_holds(file). Throws what still_holds throws, and std::runtime_error where the machine fails.
Minimized minimize(const FileFormat& format, model::Bytes file, const model::Secret& secret,
                   const StillHolds& still_holds, const MinimizeOptions& options = {});

}  // namespace tzmark::conformance::mutation
