// Files of saves are known by their exact names; all others are foreign.
#include "checkpoint/removal.h"

#include <fmt/format.h>

#include "checkpoint/names.h"
#include "tzmark/error.h"

namespace tzmark::checkpoint {
namespace {

bool is_own_file(const DirectoryEntry& entry, bool in_rank) {
  return entry.kind == EntryKind::kFile && is_own_file_name(entry.name, in_rank);
}

bool is_rank(const DirectoryEntry& entry) {
  return entry.kind == EntryKind::kDirectory && is_rank_directory_name(entry.name);
}

void remove_own_files(const Directory& directory, bool in_rank) {
  for (const DirectoryEntry& entry : directory.list()) {
    if (is_own_file(entry, in_rank) && entry.name != kUnfinishedName) directory.remove_file(entry.name);
  }
}

}  // namespace

std::optional<std::string> foreign_entry(const Directory& directory) {
  for (const DirectoryEntry& entry : directory.list()) {
    if (is_own_file(entry, false)) continue;
    if (!is_rank(entry)) return entry.name;
    for (const DirectoryEntry& inner : directory.open_directory(entry.name).list()) {
      if (!is_own_file(inner, true)) return fmt::format("{}/{}", entry.name, inner.name);
    }
  }
  return std::nullopt;
}

void remove_content(const Directory& directory) {
  if (const auto foreign = foreign_entry(directory)) {
    throw Error(ErrorCode::kWriteFailed,
                fmt::format("{}: not deleted: it contains '{}', which no save writes", directory.name(), *foreign));
  }
  for (const DirectoryEntry& entry : directory.list()) {
    if (is_rank(entry)) remove_rank(directory, entry.name);
  }
  remove_own_files(directory, false);
  // It says to whom the rest belongs, so it goes last.
  if (!directory.has(std::string(kUnfinishedName))) return;
  static_cast<void>(directory.sync());
  directory.remove_file(std::string(kUnfinishedName));
}

void remove_rank(const Directory& checkpoint, const std::string& name) {
  if (checkpoint.kind(name) == EntryKind::kNone) return;
  remove_own_files(checkpoint.open_directory(name), true);
  checkpoint.remove_directory(name);
}

}  // namespace tzmark::checkpoint
