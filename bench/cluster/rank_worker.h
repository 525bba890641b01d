// The part of one rank in a measurement: files, caches, transfers or writes, and their clock.
//
// All calls but the constructor are collective. What fails on a rank is in the RankRun that it returns, and no rank
// waits for another one that has failed. For one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/pattern.h"
#include "cluster/rank_run.h"
#include "cluster/rank_writes.h"
#include "cluster/ranks.h"
#include "harness/removed_directory.h"
#include "subjects/ours.h"

namespace tzmark::bench {

// What is read and written. The same on all ranks.
struct ClusterFiles {
  std::string directory = {};  // of the files below; empty if none is made
  std::string model = {};      // what all ranks read; in the directory or elsewhere
  bool with_shards = false, with_writes = false;
  std::string workload = {};  // of the shards, which have shard_bytes each, and of what is written
  std::uint64_t shard_bytes = 0, written_bytes = 0;

  std::string shard(unsigned rank) const;
};

class RankWorker {
 public:
  // moving.threads 0: the cores of the host, divided among its ranks.
  RankWorker(Ranks& ranks, const IoSettings& moving, Cache cache);

  // Learns of the directory that rank 0 has made, to remove it if a signal ends this rank: rank 0 may be dead then.
  RankRun adopt(const std::string& directory);
  // Learns of the files, writes the shard of this rank, and makes what it will write.
  RankRun set_up(const ClusterFiles& files);

  struct Order {
    Pattern pattern = Pattern::kSame;
    unsigned shift = 0;     // role = (rank + shift) % size
    bool is_check = false;  // compares what was read with the file
  };
  RankRun run(const Order& order);

  // What the I/O path has chosen, and what the model has. REQUIRES: files were set up.
  const IoSettings& moving() const { return moving_; }
  std::string_view io_path() const { return io_path_; }
  std::uint64_t model_bytes() const { return model_bytes_; }
  std::uint64_t tensor_bytes() const;  // of the model
  std::size_t tensors() const { return tensors_.size(); }
  std::uint64_t written_bytes() const { return writes_ ? writes_->bytes() : 0; }  // by this rank

 private:
  struct Plan;

  unsigned role_of(const Order& order) const;
  Plan plan(const Order& order, unsigned role) const;
  void make_caches_so(RankRun& run) const;
  void move(const Plan& plan, const Order& order, RankRun& run);
  void write(const Order& order, RankRun& run);

  Ranks& ranks_;
  IoSettings moving_;
  const Cache cache_;
  const std::string clock_;
  ClusterFiles files_;
  std::unique_ptr<RemovedDirectory> removed_;
  std::optional<RankWrites> writes_;
  std::uint64_t model_bytes_ = 0;
  std::vector<StoredTensor> tensors_;
  std::string io_path_;
};

// Of two shares in the page cache, that which says less for the state.
double worse_share(Cache cache, double one, double other);

// Runs what may throw, unless the run has failed already, and puts the error into it.
void guarded(RankRun& run, const std::function<void()>& action);

}  // namespace tzmark::bench
