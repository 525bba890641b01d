// See os/replaced_source.h.
#include "os/replaced_source.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

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

Descriptor ReplacedSource::lock_unchanged() const {
  if (!name_) return Descriptor();
  Descriptor file = directory_->open_file(*name_, O_RDONLY, Links::kFollow);
  if (file.get() < 0 && errno != ENOENT) throw_errno(ErrorCode::kOpenFailed, "cannot open the file to be replaced");
  // Without locks, the comparison remains.
  if (file.get() >= 0 && !try_lock(file.get(), Lock::kAlone) && errno == EWOULDBLOCK) {
    throw Error(ErrorCode::kFileLocked, "not replaced: another process is changing the file");
  }
  if (file.get() < 0 || file_version(file.get()) != version_) {
    throw Error(ErrorCode::kFileChanged,
                "not replaced: the file has changed since it was opened, and the change would be lost: run this again");
  }
  return file;
}

bool ReplacedSource::commit(AtomicFile& file) const {
  file.finish();
  const Descriptor until_it_is_replaced = lock_unchanged();
  return file.commit();
}

}  // namespace tzmark
