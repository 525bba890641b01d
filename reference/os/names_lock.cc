// See os/names_lock.h.
#include "os/names_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "os/attributes.h"
#include "os/lock_wait.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

// NFS reports EBADF for what is not open for writing.
bool cannot_lock(int error_number) {
  return is_unsupported(error_number) || error_number == EBADF || error_number == ENOLCK;
}

// Waiting would not help: tzmark has not made it, and so does not remove it.
[[noreturn]] void refuse_other_kind(const Directory& directory) {
  throw Error(ErrorCode::kOpenFailed,
              fmt::format("{} is not a lock file, but has its name: remove it", directory.path(NamesLock::kName)));
}

}  // namespace

NamesLock::NamesLock(std::shared_ptr<const Directory> directory, const NamesWait& wait)
    : directory_(std::move(directory)) {
  const std::string path = directory_->path(kName);
  wait_for_lock(
      {.try_take = [this] { return try_take(); },
       .awaited = fmt::format("another process that changes names in the directory: it holds {}", path),
       .refusal = fmt::format("another process is changing names in the directory; if none is, remove {}", path)},
      wait);
}

bool NamesLock::try_take() {
  const SignalsDeferred until_a_signal_removes_it;
  file_ = directory_->open_file_or_create(kName, S_IRUSR | S_IWUSR);
  if (file_.get() < 0) {
    // Of another user, for whom it means the same.
    const int error_number = errno;
    const EntryKind kind = directory_->kind(kName);
    if (error_number == EACCES && kind == EntryKind::kFile) return false;
    if (kind != EntryKind::kFile && kind != EntryKind::kNone) refuse_other_kind(*directory_);
    errno = error_number;
    throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot open the lock file", directory_->path(kName)));
  }
  if (!S_ISREG(status_of(file_.get()).st_mode)) refuse_other_kind(*directory_);
  FileLock lock(file_.get(), Lock::kAlone);
  if (!lock.is_held() && !cannot_lock(errno)) {
    if (errno == EWOULDBLOCK) return false;
    throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot lock", directory_->path(kName)));
  }
  // The previous holder may have removed it.
  if (!directory_->is_name_of(kName, file_.get())) return false;
  lock_ = std::move(lock);
  name_.emplace(directory_, kName);
  return true;
}

NamesLock::~NamesLock() {
  if (!name_) return;
  bool is_ours = false;
  try {
    // Another process may have put another file in its place.
    is_ours = directory_->is_name_of(kName, file_.get());
  } catch (const Error&) {
  }
  try {
    if (is_ours) directory_->remove_file(kName);
    name_->release();
  } catch (const Error&) {
    // FUSE renames an open file instead of removing it, and some of its file systems rename nothing. name_ removes it
    // after it is closed, which fails as well if another process has opened it.
    lock_ = FileLock();
    file_ = Descriptor();
  }
}

std::unique_ptr<NamesLock> NamesLock::take_or_keep(const std::shared_ptr<const Directory>& directory,
                                                   const NamesWait& wait, std::span<AtomicFile* const> finished) {
  try {
    return std::make_unique<NamesLock>(directory, wait);
  } catch (const Error& error) {
    keep_finished(finished, error);
  }
}

}  // namespace tzmark
