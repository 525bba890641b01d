// The processes that measure together: those of an MPI program, or threads in tests.
//
// Every call but rank, size and host is collective: all ranks make the same calls in the same order, one at a time.
// Errors: what the implementation throws, or the end of the program.
#pragma once

#include <string>
#include <vector>

#include "tzmark/group.h"

namespace tzmark::bench {

// Where a rank runs. Ranks of one host share its memory and its page cache.
struct HostOfRank {
  std::string name;
  unsigned rank = 0;   // among the ranks of the host
  unsigned ranks = 1;  // that the host has

  // Whether it does what is done once per host.
  bool is_first() const { return rank == 0; }
};

class Ranks : public Group {
 public:
  virtual const HostOfRank& host() const = 0;
  // Returns when all ranks have called it.
  virtual void barrier() = 0;
  // Returns the texts of all ranks on rank 0, and nothing on the others.
  virtual std::vector<std::string> gather(const std::string& mine) = 0;

  // Returns the text of rank 0 on every rank.
  std::string from_first(std::string text);
  // Returns whether all ranks pass true.
  bool agree(bool mine);
};

}  // namespace tzmark::bench
