// Changes of names, and how each one is undone.
#include "os/name_changes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "os/atomic_file.h"

namespace tzmark {
namespace {

[[noreturn]] void refuse_name() {
  if (errno != EOPNOTSUPP) throw_errno(ErrorCode::kWriteFailed, "cannot give the file its name");
  throw Error(
      ErrorCode::kUnavailable,
      "the file system supports neither rename without replacing nor hard links, so an existing file could be lost");
}

// Returns whether an entry is neither a file nor a symbolic link, and so must not be replaced.
bool is_special(const Directory& directory, const std::string& name) {
  const EntryKind kind = directory.kind(name);
  return kind == EntryKind::kDirectory || kind == EntryKind::kOther;
}

[[noreturn]] void refuse_special_entry() {
  throw Error(ErrorCode::kWriteFailed, "not replaced: it is no longer a regular file");
}

[[noreturn]] void refuse_to_lose() {
  throw Error(
      ErrorCode::kUnavailable,
      "the file system supports neither exchange of names nor hard links, so a failure could lose the old files: "
      "remove them first, or write to another name");
}

}  // namespace

bool can_link(const AtomicFile& file) {
  const auto& state = AtomicFileIn::state(file);
  // A file without a name gets it by a link.
  if (!state.linked) return true;
  const std::string name = temporary_name_for(state.name);
  const SignalsDeferred until_it_is_gone;
  if (!state.directory->try_link(state.temporary->name(), name)) {
    if (is_link_unsupported(errno)) return false;
    throw_errno(ErrorCode::kWriteFailed, "cannot link the file");
  }
  state.directory->remove_file(name);
  return true;
}

bool NameChanges::can_replace(const AtomicFile& file, const AtomicFile& other) {
  const auto& state = AtomicFileIn::state(file);
  if (!state.directory->has(state.name) || can_link(file)) return true;
  if (!AtomicFileIn::state(other).linked) return false;
  const std::string &one = state.temporary->name(), &two = AtomicFileIn::state(other).temporary->name();
  const SignalsDeferred until_it_is_undone;
  if (!state.directory->try_exchange(one, two)) {
    if (is_unsupported(errno)) return false;
    throw_errno(ErrorCode::kWriteFailed, "cannot exchange two names");
  }
  if (state.directory->try_exchange(one, two)) return true;
  throw_errno(ErrorCode::kWriteFailed, "cannot exchange two names");
}

NameChanges::~NameChanges() {
  // Running out of memory loses the text of an error, not a change.
  while (!changes_.empty()) {
    try {
      take_back();
    } catch (const std::bad_alloc&) {
    }
  }
}

NameChanges::Change& NameChanges::next_change(const std::string& temporary, const std::string& name) {
  return changes_.emplace_back(Change{Change::Kind::kNone, temporary, name});
}

void NameChanges::place(AtomicFile& file) {
  auto& state = AtomicFileIn::state(file);
  with_context(state.name, [&] {
    Change& change = next_change(state.temporary->name(), state.name);
    const bool may_replace = state.existing == AtomicFile::Existing::kReplace;
    bool is_named = directory_->try_rename_no_replace(state.temporary->name(), state.name);
    if (!is_named && errno == EOPNOTSUPP && may_replace && !directory_->has(state.name)) {
      // Nothing is lost: nothing has the name, and what takes it now may be replaced.
      is_named = directory_->try_rename(state.temporary->name(), state.name);
    }
    if (is_named) {
      change.kind = Change::Kind::kNamed;
      state.temporary->release();
    } else if (may_replace && (errno == EEXIST || errno == EOPNOTSUPP)) {
      replace(file, change);
    } else {
      refuse_name();
    }
  });
}

void NameChanges::replace(AtomicFile& file, Change& change) {
  if (directory_->try_exchange(change.temporary, change.name)) {
    change.kind = Change::Kind::kExchanged;
    // The temporary name now belongs to the old file, which only commit removes.
    AtomicFileIn::state(file).temporary->release();
    if (is_special(*directory_, change.temporary)) refuse_special_entry();
  } else if (is_unsupported(errno)) {
    replace_by_link(file, change);
  } else {
    throw_errno(ErrorCode::kWriteFailed, "cannot replace the file");
  }
}

void NameChanges::replace_by_link(AtomicFile& file, Change& change) {
  // Linking a directory would fail with a misleading error.
  if (is_special(*directory_, change.name)) refuse_special_entry();
  TemporaryName old_name(directory_, temporary_name_for(change.name));
  change.temporary = old_name.name();
  if (!directory_->try_link(change.name, old_name.name())) {
    if (!is_link_unsupported(errno)) throw_errno(ErrorCode::kWriteFailed, "cannot replace the file");
    refuse_to_lose();
  }
  // The file system may keep the new name below and lose the old file's, unless that is durable first.
  sync();
  if (!directory_->try_rename(AtomicFileIn::state(file).temporary->name(), change.name)) {
    throw_errno(ErrorCode::kWriteFailed, "cannot replace the file");
  }
  old_name.release();
  change.kind = Change::Kind::kReplaced;
  AtomicFileIn::state(file).temporary->release();
}

void NameChanges::link(const AtomicFile& file, const std::string& name) {
  Change& change = next_change(AtomicFileIn::state(file).temporary->name(), name);
  if (!directory_->try_link(change.temporary, name)) {
    throw_errno(ErrorCode::kWriteFailed, name + ": cannot link the file");
  }
  change.kind = Change::Kind::kLinked;
}

void NameChanges::commit(AtomicFile& last) {
  auto& state = AtomicFileIn::state(last);
  const auto give_name = [&] {
    const std::string& temporary = state.temporary->name();
    if (state.existing == AtomicFile::Existing::kReplace) {
      if (is_special(*directory_, state.name)) refuse_special_entry();
      if (!directory_->try_rename(temporary, state.name)) {
        throw_errno(ErrorCode::kWriteFailed, "cannot rename the finished file to this name");
      }
    } else if (!directory_->try_rename_no_replace(temporary, state.name)) {
      refuse_name();
    }
    state.temporary->release();
  };
  // No allocation may fail after the rename.
  removed_at_end_.reserve(removed_at_end_.size() + changes_.size());
  // The caller's message names a single file; one of several is named here.
  changes_.empty() ? give_name() : with_context(state.name, give_name);
  std::vector<Change> changes = std::exchange(changes_, {});
  sync();
  for (Change& change : changes) {
    if (change.kind == Change::Kind::kNamed) continue;
    removed_at_end_.push_back(std::move(change.kind == Change::Kind::kLinked ? change.name : change.temporary));
  }
  for (const std::string& name : removed_at_end_) {
    with_context("the new files are complete, but an old file could not be removed",
                 [&] { directory_->remove_file(name); });
  }
  if (!removed_at_end_.empty()) sync();
}

bool NameChanges::is_taken_back(const Change& change) {
  switch (change.kind) {
    case Change::Kind::kNone:
      return true;
    case Change::Kind::kNamed:
      // Where it got its name by a link, it may not be possible to rename it.
      return ::unlinkat(directory_->get(), change.name.c_str(), 0) == 0;
    case Change::Kind::kExchanged:
      return directory_->try_exchange(change.temporary, change.name);
    case Change::Kind::kReplaced:
      return directory_->try_rename(change.temporary, change.name);
    case Change::Kind::kLinked:
      return ::unlinkat(directory_->get(), change.name.c_str(), 0) == 0;
  }
  return false;
}

std::string NameChanges::take_back() {
  std::string remains;
  while (!changes_.empty()) {
    const Change change = std::move(changes_.back());
    changes_.pop_back();
    if (!is_taken_back(change)) {
      const bool has_old = change.kind == Change::Kind::kExchanged || change.kind == Change::Kind::kReplaced;
      remains +=
          has_old ? fmt::format("; the old {} is now {}, and could not be renamed back", change.name, change.temporary)
                  : fmt::format("; the new {} could not be removed", change.name);
      continue;
    }
    // The temporary name belongs to the new file again.
    if (change.kind == Change::Kind::kExchanged) {
      ::unlinkat(directory_->get(), change.temporary.c_str(), 0);
    }
  }
  return remains;
}

}  // namespace tzmark
