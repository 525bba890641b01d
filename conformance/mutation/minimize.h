// Shrinks a file, structure by structure, while something about it stays as it is.
//
// Whole tensors go first, then data and shapes, names, hashes, chunks and gaps, and what deviates. Each candidate is
// consistent (consistent.h), so that it is wrong only in what the file was wrong in. Where the model finds no
// structure, bytes go.
//
// Thread-safety: minimize() may run in several threads at once if what it calls may.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "model/model.h"

namespace tzmark::conformance::mutation {

// Whether a candidate still has what is looked for. It is asked in this thread, one candidate after another, and never
// twice about the same one.
using StillHolds = std::function<bool(model::Bytes candidate)>;

struct MinimizeOptions {
  // No candidate is asked about after that; one that is being asked about is waited for.
  std::chrono::nanoseconds elapsed_max = std::chrono::minutes(10);
};

struct Minimized {
  std::vector<std::byte> file;  // the file itself if nothing smaller holds
  std::size_t candidates = 0;   // that were asked about
  bool finished = false;        // nothing more can go; else the time ran out
};

// REQUIRES: still_holds(file). Throws what still_holds throws, and std::runtime_error where the machine fails.
Minimized minimize(model::Bytes file, const model::Secret& secret, const StillHolds& still_holds,
                   const MinimizeOptions& options = {});

}  // namespace tzmark::conformance::mutation
