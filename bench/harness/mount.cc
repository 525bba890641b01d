// Finds the mount of a directory by its mount id; see mount.h.
#include "harness/mount.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <sstream>

#include "harness/errno_error.h"
#include "harness/small_file.h"
#include "tzmark/descriptor.h"

namespace tzmark::bench {

std::optional<Mount> parse_mount(std::string_view mountinfo, std::string_view mount_id) {
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    // ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [tags] - TYPE SOURCE OPTIONS
    std::istringstream words(line);
    std::string id;
    std::string skipped;
    std::string own_options;
    words >> id >> skipped >> skipped >> skipped >> skipped >> own_options;
    if (id != mount_id) continue;
    while (words >> skipped && skipped != "-") {
    }
    Mount mount;
    std::string options;
    if (!(words >> mount.file_system >> mount.source >> options)) return {};
    mount.options = fmt::format("{},{}", own_options, options);
    return mount;
  }
  return {};
}

std::optional<Mount> mount_of(const std::string& directory) {
  // By mount id, because several mounts share a device number, and some file systems invent theirs.
  const Descriptor fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) throw errno_error(ErrorCode::kOpenFailed, directory);
  const auto fdinfo = read_text(fmt::format("/proc/self/fdinfo/{}", fd.get()));
  const auto mountinfo = read_text("/proc/self/mountinfo");
  const auto id = labelled(fdinfo.value_or(""), "mnt_id");
  return parse_mount(mountinfo.value_or(""), id.value_or(""));
}

}  // namespace tzmark::bench
