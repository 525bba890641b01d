// A pattern as a subject of rank 0, which orders its runs from all ranks.
//
// The time of a run is that of the last rank. The bytes are those that all ranks have got. For one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/rank_worker.h"
#include "subjects/subject.h"

namespace tzmark::bench {

// What rank 0 asks of all ranks, itself included.
class ClusterLead {
 public:
  ClusterLead(Ranks& ranks, RankWorker& own) : ranks_(ranks), own_(own) {}

  // Each returns what all ranks tell, and throws the error of one that failed.
  std::vector<RankRun> adopt(const std::string& directory);
  std::vector<RankRun> set_up(const ClusterFiles& files);
  std::vector<RankRun> run(const RankWorker::Order& order);
  // Lets the others end. Called once, also after an error.
  void end();

  const Ranks& ranks() const { return ranks_; }
  const RankWorker& own() const { return own_; }

 private:
  std::vector<RankRun> collect(const RankRun& mine);

  Ranks& ranks_;
  RankWorker& own_;
};

// Does what rank 0 asks for until that ends. For the other ranks.
void follow(Ranks& ranks, RankWorker& own);

class ClusterSubject final : public Subject {
 public:
  // model: its name in results. REQUIRES: the lead has set up the files.
  ClusterSubject(ClusterLead& lead, Pattern pattern, const std::string& model, Cache cache);

  void verify() override;
  Sample run() override;

  // Puts the figures over the ranks and these samples into the description: see docs/cluster.md.
  void add_figures(const std::vector<Sample>& samples);

 private:
  // What has to be read at least once.
  std::uint64_t unique_bytes() const;

  ClusterLead& lead_;
  const Pattern pattern_;
  unsigned runs_ = 0;
};

}  // namespace tzmark::bench
