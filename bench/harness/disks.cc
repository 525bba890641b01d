// Resolves disks through sysfs and reads their counters; see disks.h.
#include "harness/disks.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <sstream>

#include "harness/errno_error.h"
#include "harness/mount.h"
#include "harness/small_file.h"

namespace tzmark::bench {
namespace {

// The unit of /proc/diskstats, whatever the sectors of the device are (Documentation/block/stat.rst).
constexpr std::uint64_t kSectorBytes = 512;

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

std::optional<DeviceCounters> parse_diskstats(std::string_view diskstats, const std::vector<std::string>& disks) {
  DeviceCounters sum;
  std::size_t found = 0;
  std::istringstream lines{std::string(diskstats)};
  for (std::string line; std::getline(lines, line);) {
    // MAJOR MINOR NAME, reads: done merged SECTORS ms, writes: done merged SECTORS ms, ...
    std::istringstream words(line);
    std::string name;
    std::uint64_t skipped = 0;
    std::uint64_t read_sectors = 0;
    std::uint64_t written_sectors = 0;
    words >> skipped >> skipped >> name >> skipped >> skipped >> read_sectors >> skipped >> skipped >> skipped >>
        written_sectors;
    if (!words || std::ranges::find(disks, name) == disks.end()) continue;
    sum.read_bytes += read_sectors * kSectorBytes;
    sum.written_bytes += written_sectors * kSectorBytes;
    ++found;
  }
  if (found == 0 || found != disks.size()) return {};
  return sum;
}

std::optional<DeviceCounters> device_counters(const std::string& directory) {
  const std::vector<std::string> disks = disks_below(directory);
  if (disks.empty()) return {};
  return parse_diskstats(read_text("/proc/diskstats").value_or(""), disks);
}

}  // namespace tzmark::bench
