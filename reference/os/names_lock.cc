// See os/names_lock.h.
#include "os/names_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "os/atomic_file.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

using namespace std::chrono_literals;

constexpr auto kPause = 20ms;
constexpr std::chrono::milliseconds kQuiet = 1s;  // most locks are held for less

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
  const auto begin = std::chrono::steady_clock::now();
  bool is_told = !wait.notice;
  while (!try_take()) {
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited >= wait.elapsed_max) {
      throw Error(ErrorCode::kFileLocked,
                  fmt::format("another process is changing names in the directory; if none is, remove {}",
                              directory_->path(kName)));
    }
    if (!is_told && waited >= std::min(kQuiet, wait.elapsed_max / 2)) {
      is_told = true;
      wait.notice(
          fmt::format("waiting for another process that changes names in the directory: it holds {}; this process "
                      "waits for up to {} s",
                      directory_->path(kName), std::chrono::ceil<std::chrono::seconds>(wait.elapsed_max).count()));
    }
    std::this_thread::sleep_for(kPause);
  }
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
    for (AtomicFile* const file : finished) AtomicFileIn::state(*file).temporary->release();
    throw Error(error.code(),
                fmt::format("{}; the {} new files are complete and stay as NAME.tmp-XXXXXXXX, such as {}: rename them "
                            "to NAME, this one last",
                            error.message(), finished.size(), AtomicFileIn::state(*finished.back()).temporary->name()),
                error.offset());
  }
}

}  // namespace tzmark
