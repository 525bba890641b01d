// Sequence numbers, parents and runs of checkpoints.
#include "checkpoint/line.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/catalog.h"
#include "checkpoint/claim.h"

namespace tzmark::checkpoint {
bool is_on_line(const CheckpointOrigin& tip, const CheckpointOrigin& other) {
  if (other.sequence == 0) return false;
  if (other.run == tip.run) return other.sequence <= tip.sequence;
  return std::ranges::any_of(
      tip.line, [&](const RunPart& part) { return part.run == other.run && other.sequence <= part.last_sequence; });
}

void Line::continue_from(std::string save_id) {
  parent_id_ = start_id_ = std::move(save_id);
  run_ = new_save_id();
  line_.clear();
}

void Line::find_start(const std::vector<CheckpointInfo>& found) {
  const auto start = std::ranges::find(found, start_id_, &CheckpointInfo::save_id);
  // The id may be that of a checkpoint elsewhere. One that cannot be read now may be readable at the next save.
  if (start_id_.empty() || start == found.end()) return;
  start_id_.clear();
  if (start->origin.sequence == 0) return;
  line_ = start->origin.line;
  line_.push_back({start->origin.run, start->origin.sequence});
}

void Line::tell_unreadable(const std::vector<CheckpointInfo>& found) {
  for (const CheckpointInfo& info : found) {
    if (info.status != CheckpointInfo::Status::kUnreadable || !told_.insert(info.directory).second) continue;
    warnings_.push_back(
        fmt::format("{}: unreadable, so it may count as newer than this save: {}", info.directory, info.problem));
  }
}

std::string Line::newest(const Directory& parent) {
  const std::vector<CheckpointInfo> found = list(parent);
  tell_unreadable(found);
  if (found.empty() || found.back().status != CheckpointInfo::Status::kCommitted) return {};
  return name_in_directory(found.back().directory);
}

CheckpointOrigin Line::next(const Directory& parent, const std::string& name) {
  warnings_.clear();
  const std::vector<CheckpointInfo> found = list(parent);
  find_start(found);
  // A run without checkpoints needs no entry, so the list does not grow with every restart.
  std::erase_if(line_, [&](const RunPart& part) {
    return std::ranges::none_of(found, [&](const CheckpointInfo& info) { return info.origin.run == part.run; });
  });
  const WriterProcess process = this_process();
  const std::uint64_t seen = sequence_;
  for (const CheckpointInfo& info : found) {
    // Also on file systems whose locks do not reach other machines, a commit since the last save shows its process.
    if (seen != 0 && info.origin.sequence > seen &&
        (info.origin.host != process.host || info.origin.pid != process.pid)) {
      warnings_.push_back(fmt::format("{}: committed by {} since the last save of this one: both save there",
                                      info.directory, describe(WriterProcess{info.origin.host, info.origin.pid})));
    }
    sequence_ = std::max(sequence_, info.origin.sequence);
  }
  tell_unreadable(found);
  // Only a record that no save wrote has the highest number; from there on, the times decide.
  sequence_ = std::min(sequence_ + 1, kSequenceMax);
  CheckpointOrigin origin;
  origin.name = name;
  origin.sequence = sequence_;
  origin.parent = parent_id_;
  origin.run = run_;
  origin.line = line_;
  origin.host = process.host;
  origin.pid = process.pid;
  return origin;
}

}  // namespace tzmark::checkpoint
