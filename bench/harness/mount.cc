// Finds the mount of a directory by its mount id; see mount.h.
#include "harness/mount.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <sstream>

#include "harness/errno_error.h"
#include "harness/small_file.h"
#include "tzmark/descriptor.h"

namespace tzmark::bench {

std::string unescaped(const std::string& name) {
  std::string plain;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const std::string digits = name[i] == '\\' ? name.substr(i + 1, 3) : "";
    if (digits.size() < 3 || digits.find_first_not_of("01234567") != std::string::npos) {
      plain += name[i];
      continue;
    }
    plain += static_cast<char>(std::stoi(digits, nullptr, 8));
    i += 3;
  }
  return plain;
}

std::optional<Mount> parse_mount(std::string_view mountinfo, std::string_view mount_id) {
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    // ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [tags] - TYPE SOURCE OPTIONS
    std::istringstream words(line);
    std::string id;
    std::string skipped;
    std::string own_options;
    Mount mount;
    words >> id >> skipped >> skipped >> skipped >> mount.point >> own_options;
    if (id != mount_id) continue;
    while (words >> skipped && skipped != "-") {
    }
    std::string options;
    if (!(words >> mount.file_system >> mount.source >> options)) return {};
    mount.options = fmt::format("{},{}", own_options, options);
    mount.point = unescaped(mount.point);
    mount.source = unescaped(mount.source);
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
