// Resolves disks through sysfs; see disks.h.
#include "harness/disks.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>

#include "harness/errno_error.h"
#include "harness/mount.h"

namespace tzmark::bench {
namespace {

void add_disks(const std::filesystem::path& entry, std::vector<std::string>& disks) {
  std::error_code gone;
  std::filesystem::path device = std::filesystem::canonical(entry, gone);
  if (gone) return;
  // The directory of a partition is in that of its disk.
  if (std::filesystem::exists(device / "partition", gone)) device = device.parent_path();
  std::vector<std::filesystem::path> below;
  for (const auto& slave : std::filesystem::directory_iterator(device / "slaves", gone)) below.push_back(slave.path());
  std::ranges::sort(below);
  for (const auto& slave : below) add_disks(slave, disks);
  const std::string name = device.filename();
  if (below.empty() && std::ranges::find(disks, name) == disks.end()) disks.push_back(name);
}

}  // namespace

std::vector<std::string> disks_below(const std::filesystem::path& sys, unsigned major, unsigned minor) {
  std::vector<std::string> disks;
  add_disks(sys / "dev" / "block" / fmt::format("{}:{}", major, minor), disks);
  return disks;
}

std::vector<std::string> disks_below(const std::string& directory) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) throw errno_error(ErrorCode::kOpenFailed, directory);
  dev_t device = status.st_dev;
  if (major(device) == 0) {
    // Some file systems use device numbers of their own (btrfs); the mount still names a device.
    const auto mount = mount_of(directory);
    if (!mount || ::stat(mount->source.c_str(), &status) != 0 || !S_ISBLK(status.st_mode)) return {};
    device = status.st_rdev;
  }
  return disks_below("/sys", major(device), minor(device));
}

}  // namespace tzmark::bench
