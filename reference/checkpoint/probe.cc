// Trying to rename, with a file in the directory: gcsfuse renames empty directories only.
#include "checkpoint/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "checkpoint/names.h"
#include "io/paths.h"
#include "tzmark/error.h"

namespace tzmark::checkpoint {
namespace {

// A directory with a file in it, under a marked name, so that it is removed at the next start if this process dies.
class Trial {
 public:
  Trial(const Directory& parent, const std::string& name) : parent_(parent), name_(new_name(name)) {
    // Until it is locked, a cleaning process may take it for a stale one.
    constexpr int kTriesMax = 100;
    constexpr std::chrono::milliseconds kPause{1};
    for (int tries = 0; !own_; ++tries) {
      if (tries == kTriesMax) throw Error(ErrorCode::kFileLocked, fmt::format("{}: it is in use", parent.path(name_)));
      if (tries > 0) std::this_thread::sleep_for(kPause);
      // Others could lock it, or remove what makes it the proof that a rename over it fails.
      parent.make_directory(name_, 0700);
      try {
        own_ = parent.lock_directory(name_, Lock::kShared);
        if (own_) static_cast<void>(own_->create(std::string(kLatestName), 0600));
      } catch (const Error&) {
        remove_again();
        throw;
      }
    }
  }
  ~Trial() {
    if (own_) remove_again();
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  const std::string& name() const { return name_; }
  static std::string new_name(const std::string& name) { return temporary_name(name, new_save_id()); }
  // These return false and leave errno set if the names cannot be changed.
  bool try_rename(const std::string& to) {
    if (!parent_.try_rename(name_, to)) return false;
    name_ = to;
    return true;
  }
  bool try_exchange(Trial& other) {
    if (!parent_.try_exchange(name_, other.name_)) return false;
    std::swap(name_, other.name_);
    return true;
  }
  void remove() {
    own_->remove_file(std::string(kLatestName));
    parent_.remove_directory(name_);
    own_.reset();
  }

 private:
  // A call that failed once may succeed now. Otherwise the next start removes what stays.
  void remove_again() noexcept {
    try {
      if (own_) own_->remove_file(std::string(kLatestName));
      parent_.remove_directory(name_);
    } catch (const Error&) {
    }
  }

  const Directory& parent_;
  std::string name_;
  std::optional<Directory> own_;
};

}  // namespace

bool is_rename_refused(int error_number) {
  // Overlays answer EXDEV, gcsfuse EMFILE, mountpoint-s3 ENOSYS.
  constexpr std::array kRefusals = {EXDEV, EMFILE, ENOSYS, EOPNOTSUPP, EINVAL, EPERM};
  return std::ranges::find(kRefusals, error_number) != kRefusals.end();
}

bool can_rename_directories(const Directory& parent, const std::string& name) {
  Trial trial(parent, name);
  const std::string to = Trial::new_name(name);
  const bool is_renamed = trial.try_rename(to);
  if (!is_renamed && !is_rename_refused(errno)) {
    throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot rename it", parent.path(trial.name())));
  }
  trial.remove();
  return is_renamed;
}

void require_renameable(const Directory& parent, const std::string& name) {
  Trial one(parent, name), other(parent, name);
  const bool exchanges = one.try_exchange(other);
  if (!exchanges && !is_rename_refused(errno)) {
    throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot exchange names", parent.path(one.name())));
  }
  // A rename over a directory that is not empty always fails. The error shows whether anything else would be possible:
  // overlays answer EXDEV for a directory of a lower layer. File systems that cannot exchange names are not asked, as
  // they may merge the two.
  if (exchanges && parent.try_rename(name, one.name())) {
    // Under a name with a mark it would be deleted at the next start.
    const bool is_back = parent.try_rename_no_replace(one.name(), name);
    throw Error(ErrorCode::kWriteFailed,
                fmt::format("{}: it replaced {}, though that was not empty, and {}", parent.path(name), one.name(),
                            is_back ? "has its name again" : "could not be renamed back: do that yourself"));
  }
  if (exchanges && is_rename_refused(errno)) {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("{}: existing checkpoint kept: it cannot be renamed, as in a lower layer of an overlay "
                            "file system: save under another name, or delete it first",
                            parent.path(name)));
  }
  // ENOENT: another process has deleted it.
  if (exchanges && errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT) {
    throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot rename it", parent.path(name)));
  }
  one.remove();
  other.remove();
}

}  // namespace tzmark::checkpoint
