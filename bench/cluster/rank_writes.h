// What one rank writes in a run: its tensors of one file of all ranks, or its shard of a checkpoint.
//
// Collective, unless it says otherwise. Errors: those of the library; a rank on which nothing failed throws with the
// others, so that none waits. For one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cluster/pattern.h"
#include "cluster/rank_run.h"
#include "cluster/ranks.h"
#include "program/made_directory.h"
#include "subjects/content.h"
#include "subjects/ours.h"
#include "tzmark/checkpoint.h"
#include "tzmark/group.h"

namespace tzmark::bench {

class RankWrites {
 public:
  // Not collective. Of the model, this rank holds its share in memory. Throws kUsage if the ranks are so many that one
  // has none.
  RankWrites(Ranks& ranks, const IoSettings& moving, const Workload& model);

  // Rank 0 makes a directory in the given one.
  void make_place(const std::string& directory);
  // Not collective: gives the next run other bytes.
  void renew() { content_.make_new_version(); }
  // Returns when the file or the checkpoint of all ranks is durable and has its name. Sets what the rank knows of its
  // run except for the time that it took.
  void write(Pattern pattern, RankRun& run);
  // Not collective, after write: throws TZE-ENV-005 unless what was written has the right bytes.
  void check(Pattern pattern) const;
  // Not collective: removes what was written. Rank 0 calls it, when no rank needs that any more.
  void clear() const;

  std::uint64_t bytes() const { return content_.data_bytes(); }  // of this rank

 private:
  std::string file_name() const;
  std::string checkpoint() const;
  WriteOptions write_options() const;

  Ranks& ranks_;
  const IoSettings moving_;
  const TensorTable table_;  // of all ranks
  const TensorRange own_;
  const TensorContent content_;
  AsyncCheckpointer checkpointer_;
  std::optional<MadeDirectory> made_;  // on rank 0
  std::string directory_;
  std::uint64_t writes_ = 0;
};

}  // namespace tzmark::bench
