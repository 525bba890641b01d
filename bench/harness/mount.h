// The mount that a directory is on, from /proc/self/mountinfo. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tzmark::bench {

struct Mount {
  std::string file_system;  // "ext4"
  std::string options;      // of the mount and of its file system, as mountinfo has them
  std::string source;       // "/dev/vda", or any word where no device is below
};

// Nothing where /proc does not name the mount: in a chroot whose root is no mount point, or without /proc.
// Errors: TZE-ENV-001 if the directory cannot be opened.
std::optional<Mount> mount_of(const std::string& directory);

// The line of mountinfo with that number.
std::optional<Mount> parse_mount(std::string_view mountinfo, std::string_view mount_id);

}  // namespace tzmark::bench
