// The processes that run a simulated training together: this one alone, or the ranks of an MPI program.
//
// Thread-safety: agree may run in a thread of its own beside one of the other calls.
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

  // Whether each rank saves a shard. A single process saves a checkpoint that is not sharded.
  virtual bool sharded() const { return false; }
  virtual std::uint32_t rank() const { return 0; }
  virtual std::uint32_t size() const { return 1; }
  // The text of rank 0, on every rank; all of them have to call it.
  virtual std::string from_first(std::string text) { return text; }
  // Whether all ranks say true; all of them have to call it.
  virtual bool agree(bool mine) { return mine; }
};

}  // namespace tzmark::cli
