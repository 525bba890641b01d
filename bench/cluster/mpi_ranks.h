// The ranks of an MPI program.
//
// MPI ends the program if one of its calls fails, so none throws. Requires MPI_THREAD_SERIALIZED: one thread calls it
// at a time.
#pragma once

#include <mpi.h>

#include "cluster/ranks.h"

namespace tzmark::bench {

class MpiRanks final : public Ranks {
 public:
  // REQUIRES: MPI is initialized, and not finalized before the destructor has ended.
  MpiRanks();

  unsigned rank() const override { return rank_; }
  unsigned size() const override { return size_; }
  const HostOfRank& host() const override { return host_; }
  void broadcast(std::span<std::byte> memory, unsigned root) override;
  void all_gather(std::span<std::byte> memory) override;
  void barrier() override;
  std::vector<std::string> gather(const std::string& mine) override;

 private:
  // Returns false where it would not be faster.
  bool broadcast_parts(std::span<std::byte> memory, unsigned root);
  void pass_around(std::span<std::byte> memory);

  unsigned rank_ = 0, size_ = 1;
  HostOfRank host_;
};

}  // namespace tzmark::bench
