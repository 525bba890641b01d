// Saves by a single writer and by one of several ranks.
#include "checkpoint/save_task.h"

#include <fmt/format.h>

#include <utility>

#include "checkpoint/names.h"
#include "tzmark/error.h"

namespace tzmark {

using checkpoint::PendingCheckpoint;
using checkpoint::Stopwatch;

namespace {

void add(WriteReport written, WriteReport& report) {
  report.file_bytes = written.file_bytes;
  report.names_durable = written.names_durable;
  report.commit = written.commit;
  for (std::string& warning : written.warnings) report.warnings.push_back(std::move(warning));
}

}  // namespace

void SaveTask::check() const {
  checkpoint::place_of(directory);
  checkpoint::serialize_state(state);
  if (!sharding) return;
  if (!group.agree) throw Error(ErrorCode::kUsage, "SaveGroup::agree is missing");
  checkpoint::check_save_id(group.save_id);
  checkpoint::check_world_size(world_size);
  if (rank >= world_size) {
    throw Error(ErrorCode::kUsage, fmt::format("there is no rank {} of {}", rank, world_size));
  }
}

template <typename Action>
void SaveTask::with_content(Action&& action) const {
  const MemorySource model_source(model.data), optimizer_source(optimizer.data);
  action({&model.table, &model_source, &optimizer.table, &optimizer_source, &state});
}

void SaveTask::hold_claim(const SaveHistory& history, WriteReport& report) const {
  std::string other = history.claims.hold(checkpoint::place_of(directory).parent);
  if (!other.empty()) report.warnings.push_back(std::move(other));
}

SaveTask::Parent SaveTask::write_alone(const CheckpointOptions& options, const SaveHistory& history,
                                       WriteReport& report, Stopwatch& watch) const {
  hold_claim(history, report);
  PendingCheckpoint pending(directory, checkpoint::new_save_id(), options, checkpoint::Writer::kAlone);
  with_content([&](const checkpoint::Content& content) {
    auto written = pending.write(content);
    report.drain_ns = watch.lap_ns();
    pending.commit(state.step, 0, std::move(written), checkpoint::Latest::kMoves, history.line);
  });
  add(pending.report(), report);
  report.commit_ns = watch.lap_ns();
  return pending.parent();
}

SaveTask::Parent SaveTask::write_shard(const CheckpointOptions& options, const SaveHistory& history,
                                       WriteReport& report, Stopwatch& watch) const {
  std::optional<PendingCheckpoint> pending;
  std::exception_ptr own_error;
  const auto attempt = [&](auto&& action) {
    try {
      if (!own_error) action();
    } catch (...) {
      own_error = std::current_exception();
    }
    return !own_error;
  };
  const bool first = rank == 0;
  const bool mine = attempt([&] {
    if (first) hold_claim(history, report);
    pending.emplace(directory, group.save_id, options,
                    first ? checkpoint::Writer::kFirstRank : checkpoint::Writer::kOtherRank);
    with_content(
        [&](const checkpoint::Content& content) { pending->write_rank(rank, world_size, content, *sharding); });
  });
  report.drain_ns = watch.lap_ns();
  bool all = false;
  try {
    all = group.agree(mine);
    // Between the two calls of agree no other rank writes there; later the name may belong to another checkpoint.
    if (!all && pending) pending->abandon();
    if (all && first) {
      all = attempt([&] {
        pending->commit(state.step, world_size, pending->gather(world_size, state.step), checkpoint::Latest::kMoves,
                        history.line);
      });
    }
    all = group.agree(all);
  } catch (...) {
    // The other ranks may still be writing.
    if (pending) pending->leave();
    if (!own_error) throw;
  }
  report.commit_ns = watch.lap_ns();
  if (pending) add(pending->report(), report);
  if (own_error) std::rethrow_exception(own_error);
  if (!all) {
    throw Error(ErrorCode::kCheckpointPeer, fmt::format("{}: another rank has failed, so the checkpoint may not be "
                                                        "committed",
                                                        directory));
  }
  return pending->parent();
}

WriteReport SaveTask::write(const CheckpointOptions& options, const SaveHistory& history) const {
  WriteReport report;
  report.snapshot_bytes = model.bytes() + optimizer.bytes();
  Stopwatch watch;
  const Parent parent =
      sharding ? write_shard(options, history, report, watch) : write_alone(options, history, report, watch);
  if (rank == 0) {
    for (std::string& warning : history.line.take_warnings()) report.warnings.push_back(std::move(warning));
    for (std::string& warning :
         history.retention.apply(*parent, checkpoint::place_of(directory).name, history.line.parent_id())) {
      report.warnings.push_back(std::move(warning));
    }
    report.retention_ns = watch.lap_ns();
  }
  return report;
}

}  // namespace tzmark
