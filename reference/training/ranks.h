// The processes of a simulated training run: only this one, or the ranks of an MPI program.
//
// Thread-safety: agree may run in another thread at the same time as one of the other calls.
#pragma once

#include <cstdint>
#include <string>

namespace tzmark::cli {

class Ranks {
 public:
  Ranks() = default;
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // Whether each rank saves a shard. A single process saves an unsharded checkpoint.
  virtual bool sharded() const { return false; }
  virtual std::uint32_t rank() const { return 0; }
  virtual std::uint32_t size() const { return 1; }
  // Returns the text of rank 0 on every rank. All ranks must call it.
  virtual std::string from_first(std::string text) { return text; }
  // Returns whether all ranks pass true. All ranks must call it.
  virtual bool agree(bool mine) { return mine; }
};

}  // namespace tzmark::cli
