// Calls that change names, and how each is taken back.
#include "io/name_changes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ranges>

#include "io/atomic_file.h"

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

}  // namespace

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

NameChanges::~NameChanges() { take_back(); }

void NameChanges::place(AtomicFile& file) {
  AtomicFile::State& state = *file.state_;
  about(state.name, [&] {
    const bool may_replace = state.existing == AtomicFile::Existing::kReplace;
    bool is_named = rename_to_free_name(*directory_, state.temporary->name(), state.name);
    if (!is_named && errno == EOPNOTSUPP && may_replace && !directory_->has(state.name)) {
      // Nothing is there to be lost, and what comes now may be replaced.
      is_named = rename_in(*directory_, state.temporary->name(), state.name);
    }
    if (is_named) {
      changes_.push_back({Change::Kind::kNamed, state.temporary->name(), state.name});
      state.temporary->release();
    } else if (may_replace && (errno == EEXIST || errno == EOPNOTSUPP)) {
      replace(file);
    } else {
      refuse_name();
    }
  });
}

void NameChanges::replace(AtomicFile& file) {
  AtomicFile::State& state = *file.state_;
  const std::string& temporary = state.temporary->name();
  if (rename_in(*directory_, temporary, state.name, RENAME_EXCHANGE)) {
    changes_.push_back({Change::Kind::kExchanged, temporary, state.name});
    state.temporary->release();
    return;
  }
  if (!is_lacking(errno)) throw_errno(ErrorCode::kWriteFailed, "cannot replace the file");
  const std::string kept = temporary_name_for(state.name);
  if (!link_in(*directory_, state.name, kept)) {
    if (!is_lacking_links(errno)) throw_errno(ErrorCode::kWriteFailed, "cannot replace the file");
    throw Error(ErrorCode::kUnavailable,
                "the file system can neither exchange two names nor link a file, so that a failure could lose the old "
                "files: remove them first, or write to another name");
  }
  if (!rename_in(*directory_, temporary, state.name)) {
    const int error_number = errno;
    ::unlinkat(directory_->get(), kept.c_str(), 0);
    errno = error_number;
    throw_errno(ErrorCode::kWriteFailed, "cannot replace the file");
  }
  changes_.push_back({Change::Kind::kReplaced, kept, state.name});
  state.temporary->release();
}

void NameChanges::link(const AtomicFile& file, const std::string& name) {
  const std::string& from = file.state_->temporary->name();
  if (!link_in(*directory_, from, name)) throw_errno(ErrorCode::kWriteFailed, name + ": cannot link the file");
  changes_.push_back({Change::Kind::kLinked, from, name});
}

void NameChanges::commit(AtomicFile& last) {
  AtomicFile::State& state = *last.state_;
  const auto give_name = [&] {
    const std::string& temporary = state.temporary->name();
    if (state.existing == AtomicFile::Existing::kReplace) {
      if (!rename_in(*directory_, temporary, state.name)) refuse_name();
    } else if (!rename_to_free_name(*directory_, temporary, state.name)) {
      refuse_name();
    }
    state.temporary->release();
  };
  // The caller names the file that it wrote; one of several is named here.
  changes_.empty() ? give_name() : about(state.name, give_name);
  const std::vector<Change> changes = std::exchange(changes_, {});
  directory_->sync();
  for (const Change& change : changes) {
    if (change.kind != Change::Kind::kNamed) {
      removed_at_end_.push_back(change.kind == Change::Kind::kLinked ? change.name : change.temporary);
    }
  }
  for (const std::string& name : removed_at_end_) {
    about("the new files are complete, but one that they replace stays", [&] { directory_->remove_file(name); });
  }
  if (!removed_at_end_.empty()) directory_->sync();
}

bool NameChanges::is_taken_back(const Change& change) {
  switch (change.kind) {
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
  for (const Change& change : std::views::reverse(changes_)) {
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
  changes_.clear();
  return remains;
}

}  // namespace tzmark
