// The order of steps of saves and deletions without a rename.
#include "checkpoint/unfinished.h"

#include <fmt/format.h>

#include "checkpoint/names.h"
#include "checkpoint/records.h"
#include "checkpoint/removal.h"
#include "tzmark/error.h"

namespace tzmark::checkpoint {
namespace {

const std::string kUnfinished(kUnfinishedName);
const std::string kCommit(kCommitName);

// More than a name and a save id can have.
constexpr std::uint64_t kTextBytesMax = 1024;

bool is_text_of(std::string_view text) {
  if (!text.ends_with('\n')) return false;
  text.remove_suffix(1);
  return is_marked_name(text);
}

// Returns whether the file says that a directory of this name is unfinished. A copy of one under another name does not
// belong to us. A file that lost its content with the power, or is just being written, is the only one.
bool has_unfinished(const Directory& directory, const std::string& name) {
  if (directory.kind(kUnfinished) != EntryKind::kFile) return false;
  const std::string text = read_unfinished(directory);
  if (is_text_of(text)) return text.starts_with(name + std::string(kTemporaryMark));
  return directory.list().size() == 1;
}

}  // namespace

bool has_valid_commit(const Directory& directory) {
  if (directory.kind(kCommit) != EntryKind::kFile) return false;
  try {
    parse_commit(read_small_file(directory, kCommit, kRecordBytesMax));
    return true;
  } catch (const Error& error) {
    // A read error says nothing about the checkpoint; a record that is too large was not written by a save.
    if (error.error_class() != ErrorClass::kFile && error.code() != ErrorCode::kResource) throw;
    return false;
  }
}

std::string unfinished_text(const std::string& name, const std::string& save_id) {
  return temporary_name(name, save_id) + "\n";
}

std::string read_unfinished(const Directory& directory) {
  if (directory.kind(kUnfinished) != EntryKind::kFile) return {};
  try {
    return read_small_file(directory, kUnfinished, kTextBytesMax);
  } catch (const Error& error) {
    // No save writes so much. Or it was removed since.
    if (error.code() == ErrorCode::kResource || !directory.has(kUnfinished)) return {};
    throw;
  }
}

Marker marker_of(const Directory& directory, const std::string& name) {
  if (!has_unfinished(directory, name)) return Marker::kNone;
  return has_valid_commit(directory) ? Marker::kCommitted : Marker::kUnfinished;
}

void remove_in_place(const Directory& parent, const Directory& directory, const std::string& name) {
  if (!has_unfinished(directory, name)) {
    directory.remove_file(kUnfinished);
    write_small_file(directory, kUnfinished, unfinished_text(name, new_save_id()));
  }
  // Where names cannot be made durable, the save has said so.
  static_cast<void>(directory.sync());
  if (directory.remove_file(kCommit)) static_cast<void>(directory.sync());
  // If that is refused, others may keep it from being cleaned up later.
  static_cast<void>(directory.close_to_others());
  remove_content(directory);
  parent.remove_directory(name);
}

Removal clean_unfinished(const Directory& parent, const std::string& name) {
  if (parent.kind(name) != EntryKind::kDirectory) return Removal::kNone;
  // Checkpoints that are complete are not locked, not even for a moment.
  if (marker_of(parent.open_directory(name), name) == Marker::kNone) return Removal::kNone;
  const auto locked = parent.lock_directory(name, Lock::kAlone);
  if (!locked) return Removal::kLocked;
  const Marker marker = marker_of(*locked, name);
  if (marker == Marker::kNone) return Removal::kNone;
  if (marker == Marker::kCommitted) {
    locked->remove_file(kUnfinished);
    return Removal::kNone;
  }
  if (const auto foreign = foreign_entry(*locked)) {
    throw Error(ErrorCode::kWriteFailed,
                fmt::format("{}: not deleted: it contains '{}', which no save writes", locked->name(), *foreign));
  }
  remove_in_place(parent, *locked, name);
  return Removal::kDone;
}

}  // namespace tzmark::checkpoint
