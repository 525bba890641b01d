// See os/replaced_source.h.
#include "os/replaced_source.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "os/lock_wait.h"
#include "tzmark/error.h"

namespace tzmark {

ReplacedSource::ReplacedSource(std::shared_ptr<const Directory> directory, std::span<const std::string> outputs,
                               std::span<const FileVersion> source)
    : directory_(std::move(directory)) {
  const std::string* part = nullptr;
  for (const std::string& output : outputs) {
    const Descriptor existing = directory_->open_file(output, O_PATH, Links::kFollow);
    if (existing.get() < 0) continue;
    const FileVersion version = file_version(existing.get());
    const auto found = std::ranges::find_if(
        source, [&](const FileVersion& read) { return read.device == version.device && read.inode == version.inode; });
    if (found == source.end()) continue;
    if (found == source.begin()) {
      name_ = output;
      version_ = *found;
    } else {
      part = &output;
    }
  }
  if (part != nullptr && !name_) {
    throw Error(ErrorCode::kUsage,
                fmt::format("{} is a part of the input, which would lose it: write to another name", *part));
  }
}

Descriptor ReplacedSource::lock_unchanged(const NamesWait& wait, std::span<AtomicFile* const> finished) const {
  if (!name_) return Descriptor();
  Descriptor file = directory_->open_file(*name_, O_RDONLY, Links::kFollow);
  if (file.get() < 0 && errno != ENOENT) throw_errno(ErrorCode::kOpenFailed, "cannot open the file to be replaced");
  // A shared lock keeps others from changing the file as well, where one who only reads it has locked it.
  const auto is_locked = [&] {
    return try_lock(file.get(), Lock::kAlone) || errno != EWOULDBLOCK || try_lock(file.get(), Lock::kShared);
  };
  try {
    if (file.get() >= 0) {
      wait_for_lock({.try_take = is_locked,
                     .awaited = fmt::format("another process that has locked {}", *name_),
                     .refusal = "not replaced: another process is changing the file, or has locked it"},
                    wait);
    }
  } catch (const Error& error) {
    keep_finished(finished, error);
  }
  // Where files cannot be locked, the comparison remains.
  if (file.get() < 0 || file_version(file.get()) != version_) {
    throw Error(ErrorCode::kFileChanged,
                "not replaced: the file has changed since it was opened, and the change would be lost: run this again");
  }
  return file;
}

bool ReplacedSource::commit(AtomicFile& file, const NamesWait& wait) const {
  file.finish();
  const std::array finished = {&file};
  const Descriptor until_it_is_replaced = lock_unchanged(wait, finished);
  return file.commit();
}

}  // namespace tzmark
