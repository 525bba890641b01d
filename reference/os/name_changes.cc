// Calls that change names, and how each is taken back.
#include "os/name_changes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <new>
#include <thread>
#include <utility>

#include "os/atomic_file.h"

namespace tzmark {
namespace {

// What file systems answer for a flag or a call that they do not have.
bool is_lacking(int error_number) {
  return error_number == EINVAL || error_number == ENOSYS || error_number == EOPNOTSUPP;
}

// vfat answers EPERM, others EMLINK.
bool is_lacking_links(int error_number) {
  return is_lacking(error_number) || error_number == EPERM || error_number == EMLINK;
}

bool link_in(const Directory& directory, const std::string& from, const std::string& to) {
  return ::linkat(directory.get(), from.c_str(), directory.get(), to.c_str(), 0) == 0;
}

bool rename_in(const Directory& directory, const std::string& from, const std::string& to, unsigned flags = 0) {
  if (flags == 0) return ::renameat(directory.get(), from.c_str(), directory.get(), to.c_str()) == 0;
  return ::renameat2(directory.get(), from.c_str(), directory.get(), to.c_str(), flags) == 0;
}

[[noreturn]] void refuse_name() {
  if (errno != EOPNOTSUPP) throw_errno(ErrorCode::kWriteFailed, "cannot give the file its name");
  throw Error(ErrorCode::kUnavailable,
              "the file system can neither rename without replacing nor link a file, so that an existing file could be "
              "lost");
}

// Whether what has the name is neither a file nor a link, and so is not to be replaced.
bool is_special(const Directory& directory, const std::string& name) {
  struct stat status {};
  return ::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(status.st_mode) &&
         !S_ISLNK(status.st_mode);
}

[[noreturn]] void refuse_special_entry() {
  throw Error(ErrorCode::kWriteFailed, "something that is no regular file has taken the name, and is not replaced");
}

[[noreturn]] void refuse_to_lose() {
  throw Error(ErrorCode::kUnavailable,
              "the file system can neither exchange two names nor link a file, so that a failure could lose the old "
              "files: remove them first, or write to another name");
}

}  // namespace

NamesLock::NamesLock(std::shared_ptr<const Directory> directory) : directory_(std::move(directory)) {
  using namespace std::chrono_literals;
  constexpr auto kWait = 5s;
  constexpr auto kPause = 20ms;
  const auto deadline = std::chrono::steady_clock::now() + kWait;
  while (::flock(directory_->get(), LOCK_EX | LOCK_NB) != 0) {
    // NFS answers EBADF, as it locks only what is open for writing.
    if (is_lacking(errno) || errno == EBADF || errno == ENOLCK) return;
    if (errno != EWOULDBLOCK && errno != EINTR) throw_errno(ErrorCode::kOpenFailed, "cannot lock the directory");
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Error(ErrorCode::kFileLocked, "another process is changing names in the directory: try again when it ends");
    }
    std::this_thread::sleep_for(kPause);
  }
}

NamesLock::~NamesLock() { ::flock(directory_->get(), LOCK_UN); }

bool rename_to_free_name(const Directory& directory, const std::string& from, const std::string& to) {
  if (rename_in(directory, from, to, RENAME_NOREPLACE)) return true;
  if (!is_lacking(errno)) return false;
  if (link_in(directory, from, to)) {
    if (::unlinkat(directory.get(), from.c_str(), 0) == 0) return true;
    const int error_number = errno;
    ::unlinkat(directory.get(), to.c_str(), 0);
    errno = error_number;
    return false;
  }
  if (is_lacking_links(errno)) errno = EOPNOTSUPP;
  return false;
}

bool can_link(const AtomicFile& file) {
  const AtomicFile::State& state = *file.state_;
  // What has no name yet will get one by a link.
  if (!state.linked) return true;
  const std::string name = temporary_name_for(state.name);
  const SignalsDeferred until_it_is_gone;
  if (!link_in(*state.directory, state.temporary->name(), name)) {
    if (is_lacking_links(errno)) return false;
    throw_errno(ErrorCode::kWriteFailed, "cannot link the file");
  }
  state.directory->remove_file(name);
  return true;
}

bool NameChanges::can_replace(const AtomicFile& file, const AtomicFile& other) {
  const AtomicFile::State& state = *file.state_;
  if (!state.directory->has(state.name) || can_link(file)) return true;
  if (!other.state_->linked) return false;
  const std::string &one = state.temporary->name(), &two = other.state_->temporary->name();
  const SignalsDeferred until_it_is_undone;
  if (!rename_in(*state.directory, one, two, RENAME_EXCHANGE)) {
    if (is_lacking(errno)) return false;
    throw_errno(ErrorCode::kWriteFailed, "cannot exchange two names");
  }
  if (rename_in(*state.directory, one, two, RENAME_EXCHANGE)) return true;
  throw_errno(ErrorCode::kWriteFailed, "cannot exchange two names");
}

NameChanges::~NameChanges() {
  // Out of memory, it loses the text of an error, and not a change.
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
  AtomicFile::State& state = *file.state_;
  about(state.name, [&] {
    Change& change = next_change(state.temporary->name(), state.name);
    const bool may_replace = state.existing == AtomicFile::Existing::kReplace;
    bool is_named = rename_to_free_name(*directory_, state.temporary->name(), state.name);
    if (!is_named && errno == EOPNOTSUPP && may_replace && !directory_->has(state.name)) {
      // Nothing is there to be lost, and what comes now may be replaced.
      is_named = rename_in(*directory_, state.temporary->name(), state.name);
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
  if (rename_in(*directory_, change.temporary, change.name, RENAME_EXCHANGE)) {
    change.kind = Change::Kind::kExchanged;
    // From here on the temporary name is that of what was there, which is removed at the end only.
    file.state_->temporary->release();
    if (is_special(*directory_, change.temporary)) refuse_special_entry();
  } else if (is_lacking(errno)) {
    replace_by_link(file, change);
  } else {
    throw_errno(ErrorCode::kWriteFailed, "cannot replace the file");
  }
}

void NameChanges::replace_by_link(AtomicFile& file, Change& change) {
  // A directory cannot be linked, and the reason would be the wrong one.
  if (is_special(*directory_, change.name)) refuse_special_entry();
  TemporaryName old_name(directory_, temporary_name_for(change.name));
  change.temporary = old_name.name();
  if (!link_in(*directory_, change.name, old_name.name())) {
    if (!is_lacking_links(errno)) throw_errno(ErrorCode::kWriteFailed, "cannot replace the file");
    refuse_to_lose();
  }
  // The file system may keep the new name below and lose the old file's, unless that is durable first.
  directory_->sync();
  if (!rename_in(*directory_, file.state_->temporary->name(), change.name)) {
    throw_errno(ErrorCode::kWriteFailed, "cannot replace the file");
  }
  old_name.release();
  change.kind = Change::Kind::kReplaced;
  file.state_->temporary->release();
}

void NameChanges::link(const AtomicFile& file, const std::string& name) {
  Change& change = next_change(file.state_->temporary->name(), name);
  if (!link_in(*directory_, change.temporary, name)) {
    throw_errno(ErrorCode::kWriteFailed, name + ": cannot link the file");
  }
  change.kind = Change::Kind::kLinked;
}

void NameChanges::commit(AtomicFile& last) {
  AtomicFile::State& state = *last.state_;
  const auto give_name = [&] {
    const std::string& temporary = state.temporary->name();
    if (state.existing == AtomicFile::Existing::kReplace) {
      if (is_special(*directory_, state.name)) refuse_special_entry();
      if (!rename_in(*directory_, temporary, state.name)) refuse_name();
    } else if (!rename_to_free_name(*directory_, temporary, state.name)) {
      refuse_name();
    }
    state.temporary->release();
  };
  // Nothing may run out of memory after the rename.
  removed_at_end_.reserve(removed_at_end_.size() + changes_.size());
  // The caller names the file that it wrote; one of several is named here.
  changes_.empty() ? give_name() : about(state.name, give_name);
  std::vector<Change> changes = std::exchange(changes_, {});
  directory_->sync();
  for (Change& change : changes) {
    if (change.kind == Change::Kind::kNamed) continue;
    removed_at_end_.push_back(std::move(change.kind == Change::Kind::kLinked ? change.name : change.temporary));
  }
  for (const std::string& name : removed_at_end_) {
    about("the new files are complete, but one that they replace stays", [&] { directory_->remove_file(name); });
  }
  if (!removed_at_end_.empty()) directory_->sync();
}

bool NameChanges::is_taken_back(const Change& change) {
  switch (change.kind) {
    case Change::Kind::kNone:
      return true;
    case Change::Kind::kNamed:
      return rename_in(*directory_, change.name, change.temporary);
    case Change::Kind::kExchanged:
      return rename_in(*directory_, change.temporary, change.name, RENAME_EXCHANGE);
    case Change::Kind::kReplaced:
      return rename_in(*directory_, change.temporary, change.name);
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
      remains += has_old
                     ? fmt::format("; the old {} is now {}, and could not be put back", change.name, change.temporary)
                     : fmt::format("; {} is new, and could not be removed", change.name);
      continue;
    }
    // The new file has its temporary name again.
    if (change.kind == Change::Kind::kNamed || change.kind == Change::Kind::kExchanged) {
      ::unlinkat(directory_->get(), change.temporary.c_str(), 0);
    }
  }
  return remains;
}

}  // namespace tzmark
