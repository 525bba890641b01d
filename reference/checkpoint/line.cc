// Sequence numbers, parents and runs of checkpoints.
#include "checkpoint/line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "bytes/utf8.h"
#include "checkpoint/catalog.h"
#include "checkpoint/names.h"

namespace tzmark::checkpoint {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  // A name that is cut off still identifies the machine to people.
  static_cast<void>(::gethostname(name.data(), name.size() - 1));
  return printable(name.data());
}

}  // namespace

bool is_on_line(const CheckpointOrigin& tip, const CheckpointOrigin& other) {
  if (other.sequence == 0) return false;
  if (other.run == tip.run) return other.sequence <= tip.sequence;
  return std::ranges::any_of(
      tip.line, [&](const RunPart& part) { return part.run == other.run && other.sequence <= part.last_sequence; });
}

void Line::continue_from(std::string save_id) {
  parent_id_ = std::move(save_id);
  run_.clear();
  line_.clear();
}

void Line::start_run(const std::vector<CheckpointInfo>& found) {
  run_ = new_save_id();
  const auto parent = std::ranges::find(found, parent_id_, &CheckpointInfo::save_id);
  // The id may be that of a checkpoint elsewhere, or of an older release.
  if (parent_id_.empty() || parent == found.end() || parent->origin.sequence == 0) return;
  line_ = parent->origin.line;
  line_.push_back({parent->origin.run, parent->origin.sequence});
}

CheckpointOrigin Line::next(const Directory& parent, const std::string& name) {
  warnings_.clear();
  const std::vector<CheckpointInfo> found = list(parent);
  if (run_.empty()) start_run(found);
  // A run without checkpoints needs no entry, so the list does not grow with every restart.
  std::erase_if(line_, [&](const RunPart& part) {
    return std::ranges::none_of(found, [&](const CheckpointInfo& info) { return info.origin.run == part.run; });
  });
  for (const CheckpointInfo& info : found) {
    sequence_ = std::max(sequence_, info.origin.sequence);
    if (info.status != CheckpointInfo::Status::kUnreadable) continue;
    warnings_.push_back(
        fmt::format("{}: unreadable, so it may count as newer than this save: {}", info.directory, info.problem));
  }
  // Only a record that no save wrote has the highest number; from there on, the times decide.
  sequence_ = std::min(sequence_ + 1, kSequenceMax);
  CheckpointOrigin origin;
  origin.name = name;
  origin.sequence = sequence_;
  origin.parent = parent_id_;
  origin.run = run_;
  origin.line = line_;
  origin.host = host_name();
  origin.pid = static_cast<std::uint64_t>(::getpid());
  return origin;
}

}  // namespace tzmark::checkpoint
