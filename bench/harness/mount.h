// The mount that a directory is on, from /proc/self/mountinfo. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tzmark::bench {

struct Mount {
  std::string file_system;  // "ext4"
  std::string options;      // of the mount and of its file system, as in mountinfo
  std::string source;       // "/dev/vda", or any word without a device
  std::string point;        // "/data", the directory that it is mounted on
};

// Nothing if /proc does not list the mount: in a chroot whose root is not a mount point, or without /proc.
// Errors: TZE-ENV-001 if the directory cannot be opened.
std::optional<Mount> mount_of(const std::string& directory);

// Parses the line of mountinfo with that id.
std::optional<Mount> parse_mount(std::string_view mountinfo, std::string_view mount_id);

// The kernel writes white space and backslashes of names as three octal digits: "/data\040set".
std::string unescaped(const std::string& name);

}  // namespace tzmark::bench
