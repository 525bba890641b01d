// Queries the kernel, /proc and /sys; see probe.h.
#include "tune/probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "harness/disks.h"
#include "harness/errno_error.h"
#include "harness/machine.h"
#include "harness/or_null.h"
#include "harness/page_cache.h"
#include "harness/small_file.h"
#include "tzmark/descriptor.h"
#include "tzmark/io.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

template <typename T>
std::optional<T> value_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return {};
  return found->get<T>();
}

// Why a file cannot be created, with the three common reasons in words.
[[noreturn]] void throw_not_writable(const std::string& directory, int error) {
  std::string why = fmt::format("cannot create a file: {}", std::generic_category().message(error));
  if (error == EROFS) why = "the file system is mounted read-only; tune needs to write its test files";
  if (error == EACCES || error == EPERM) why = "no permission to create files; tune needs to write its test files";
  if (error == ENOSPC || error == EDQUOT) why = "the file system is full, or your quota is";
  throw Error(ErrorCode::kWriteFailed, fmt::format("{}: {}", directory, why));
}

// Creates an unnamed file, or throws why there can be none.
Descriptor created_file(const std::string& directory) {
  Descriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.get() >= 0) return file;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) throw_not_writable(directory, errno);
  // NFS and FUSE have no unnamed files.
  std::string name = directory + "/.tzmark-probe-XXXXXX";
  Descriptor named(::mkostemp(name.data(), O_CLOEXEC));
  if (named.get() < 0) throw_not_writable(directory, errno);
  ::unlink(name.c_str());
  return named;
}

// Whether a file of the directory stays in the page cache whatever is done, as on tmpfs. Found out by trying: an
// overlay does not say what it lies on.
bool keeps_files_in_memory(const std::string& directory, int file) {
  constexpr std::size_t kTriedBytes = 256 << 10;
  const std::vector<char> bytes(kTriedBytes);
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t written = ::pwrite(file, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_not_writable(directory, errno);
    at += static_cast<std::size_t>(written);
  }
  try {
    return drop_pages(file) > 0.5;
  } catch (const Error& error) {
    if (error.error_class() != ErrorClass::kUnavailable) throw;
    return false;  // it cannot be told; loads that need a state find out
  }
}

// The number of the device below a directory: of btrfs and others, which invent theirs, that of the mounted device.
dev_t device_of(const std::string& directory, const std::optional<Mount>& mount) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) throw errno_error(ErrorCode::kOpenFailed, directory);
  struct stat source {};
  const bool is_invented = major(status.st_dev) == 0;
  if (is_invented && mount && ::stat(mount->source.c_str(), &source) == 0 && S_ISBLK(source.st_mode)) {
    return source.st_rdev;
  }
  return status.st_dev;
}

// The directory of a device in sysfs; that of the whole disk for a partition. Nothing if there is none.
std::optional<fs::path> directory_of(const fs::path& sys, dev_t device) {
  std::error_code absent;
  fs::path directory = fs::canonical(sys / fmt::format("dev/block/{}:{}", major(device), minor(device)), absent);
  if (absent) return {};
  return fs::exists(directory / "partition", absent) ? directory.parent_path() : directory;
}

std::vector<fs::path> directories_below(const fs::path& directory) {
  std::vector<fs::path> below;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(directory / "slaves", absent)) {
    fs::path member = fs::canonical(entry.path(), absent);
    if (!absent) below.push_back(std::move(member));
  }
  std::ranges::sort(below, {}, [](const fs::path& path) { return path.filename(); });
  return below;
}

// "LVM-gQ2x...": the subsystem that made the volume, in lower case.
std::string kind_of_volume(const fs::path& directory) {
  const std::string uuid = read_value(directory / "dm/uuid").value_or("");
  std::string kind = uuid.substr(0, uuid.find('-'));
  std::ranges::transform(kind, kind.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return kind.empty() ? "dm" : kind;
}

void add_layers(const fs::path& directory, std::vector<RaidLayer>& layers) {
  const std::string name = directory.filename();
  std::error_code absent;
  const bool is_md = fs::exists(directory / "md", absent);
  const bool is_dm = fs::exists(directory / "dm", absent);
  const bool is_known = std::ranges::find(layers, name, &RaidLayer::name) != layers.end();
  const std::vector<fs::path> below = directories_below(directory);
  if ((is_md || is_dm) && !is_known) {
    RaidLayer layer{
        name, is_md ? read_value(directory / "md/level").value_or("md") : kind_of_volume(directory), {}, {}};
    if (is_md) layer.chunk_bytes = read_number(directory / "md/chunk_size");
    for (const fs::path& member : below) layer.members.push_back(member.filename());
    layers.push_back(std::move(layer));
  }
  for (const fs::path& member : below) {
    const bool is_partition = fs::exists(member / "partition", absent);
    add_layers(is_partition ? member.parent_path() : member, layers);
  }
}

// The only btrfs whose readahead can be told: that of a machine with one.
std::optional<std::string> btrfs_bdi(const fs::path& sys) {
  std::optional<std::string> found;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(sys / "class/bdi", absent)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("btrfs-")) continue;
    if (found) return {};
    found = name;
  }
  return found;
}

std::optional<std::string> bdi_of(const Probe& probe, const fs::path& sys, dev_t device) {
  std::optional<std::string> bdi = fmt::format("{}:{}", major(device), minor(device));
  if (const auto directory = directory_of(sys, device)) bdi = read_value(*directory / "dev");
  if (probe.mount && probe.mount->file_system == "btrfs") bdi = btrfs_bdi(sys);
  std::error_code absent;
  return bdi && fs::exists(sys / "class/bdi" / *bdi, absent) ? bdi : std::nullopt;
}

// In sysfs, a device lies in the directory of what it is attached to, up to the one that has a node. -1 means none.
std::optional<int> numa_node_of(const fs::path& disk) {
  std::error_code absent;
  for (fs::path at = fs::canonical(disk, absent); !absent && at.has_relative_path(); at = at.parent_path()) {
    if (const auto node = read_value(at / "numa_node")) {
      const int number = std::atoi(node->c_str());
      return number >= 0 ? std::optional(number) : std::nullopt;
    }
  }
  return {};
}

std::vector<std::string> words_of(std::string text) {
  std::erase_if(text, [](char c) { return c == '[' || c == ']'; });
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

void add_memory_facts(Probe& probe, const fs::path& root, const json& host) {
  const auto total = labelled(read_text(root / "proc/meminfo").value_or(""), "MemTotal");
  if (total) probe.memory_bytes = std::strtoull(total->c_str(), nullptr, 10) * 1024;
  if (const auto limit = value_of<std::uint64_t>(host["cgroup"], "memory_bytes")) {
    probe.memory_bytes = std::min(probe.memory_bytes.value_or(*limit), *limit);
  }
  const fs::path directory = root / "sys/kernel/mm/transparent_hugepage";
  const auto setting = [&](const char* name) { return chosen(read_value(directory / name).value_or("")); };
  probe.huge_pages = setting("enabled");
  probe.huge_pages_defrag = setting("defrag");
  probe.huge_pages_shmem = setting("shmem_enabled");
}

void add_dirty_limits(DirtyLimits& dirty, const json& vm) {
  const auto number = [&](const char* name) { return value_of<std::uint64_t>(vm, name); };
  dirty = {number("dirty_background_bytes"),
           number("dirty_background_ratio"),
           number("dirty_bytes"),
           number("dirty_ratio"),
           number("dirty_expire_centisecs"),
           number("dirty_writeback_centisecs")};
}

void add_warnings(Probe& probe) {
  const std::string type = probe.mount ? probe.mount->file_system : "an unknown file system";
  const auto warn = [&](const std::string& what) {
    probe.warnings.push_back(fmt::format("{} is on {}{}", probe.directory, type, what));
  };
  if (probe.is_memory) {
    warn(
        ", which keeps files in memory: there is no device, no direct I/O and no cold page cache, so only warm loads "
        "and saves to memory are measured");
    return;
  }
  if (probe.is_network) warn(": the server may keep files in its memory, which this machine cannot drop");
  if (!probe.takes_direct) warn(", which refuses O_DIRECT: the paths that bypass the page cache are left out");
  if (type == "overlay") warn(", which hides its device: the settings of the disk are unknown");
}

std::optional<std::uint64_t> limit_of(std::optional<std::uint64_t> bytes, std::optional<std::uint64_t> ratio,
                                      std::optional<std::uint64_t> memory_bytes) {
  if (bytes.value_or(0) != 0) return bytes;
  if (!ratio || !memory_bytes) return {};
  return *memory_bytes / 100 * *ratio;
}

json device_text(const Probe& probe) {
  return probe.disks.empty() ? json() : json(fmt::format("{}", fmt::join(probe.disks, " ")));
}

// "md0 raid0 of nvme0n1 nvme1n1, 512 KiB chunks; dm-0 lvm of md0"
json raid_text(const Probe& probe) {
  std::string text;
  for (const RaidLayer& layer : probe.raid) {
    text +=
        fmt::format("{}{} {} of {}", text.empty() ? "" : "; ", layer.name, layer.level, fmt::join(layer.members, " "));
    if (layer.chunk_bytes.value_or(0) != 0) text += fmt::format(", {} KiB chunks", *layer.chunk_bytes / 1024);
  }
  return text.empty() ? json() : json(text);
}

}  // namespace

std::optional<std::uint64_t> DirtyLimits::background_limit_bytes(std::optional<std::uint64_t> memory_bytes) const {
  return limit_of(background_bytes, background_ratio, memory_bytes);
}

std::optional<std::uint64_t> DirtyLimits::limit_bytes(std::optional<std::uint64_t> memory_bytes) const {
  return limit_of(bytes, ratio, memory_bytes);
}

bool is_network_file_system(std::string_view type) {
  static const std::set<std::string_view> kNetwork = {
      "9p",   "afs",   "beegfs",   "ceph",  "cifs",  "glusterfs", "gpfs",  "lustre",   "mmfs",   "ncpfs", "nfs",
      "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3",      "smbfs", "virtiofs", "wekafs", "yrfs"};
  // FUSE shows what it serves by its subtype; most of them fetch from elsewhere.
  static const std::set<std::string_view> kLocalFuse = {"fuse.bindfs",         "fuse.encfs",   "fuse.gocryptfs",
                                                        "fuse.mergerfs",       "fuse.ntfs-3g", "fuse.overlayfs",
                                                        "fuse.fuse-overlayfs", "fuse.zfs",     "fuse.unionfs"};
  if (type == "fuse" || type.starts_with("fuse.")) return !kLocalFuse.contains(type);
  return kNetwork.contains(type);
}

void add_system_facts(Probe& probe, const fs::path& root, dev_t device) {
  const fs::path sys = root / "sys";
  const std::string type = probe.mount ? probe.mount->file_system : "";
  probe.is_network = is_network_file_system(type);
  probe.disks = disks_below(sys, major(device), minor(device));
  const fs::path disk = sys / "class/block" / (probe.disks.empty() ? "-" : probe.disks.front());
  probe.disk = disk_facts(disk);
  probe.schedulers_offered = words_of(read_value(disk / "queue/scheduler").value_or(""));
  probe.numa_node = numa_node_of(disk);
  if (const auto directory = directory_of(sys, device)) add_layers(*directory, probe.raid);
  probe.bdi = bdi_of(probe, sys, device);
  if (probe.bdi) {
    const auto kilobytes = read_number(sys / "class/bdi" / *probe.bdi / "read_ahead_kb");
    if (kilobytes) probe.readahead_bytes = *kilobytes * 1024;
  }
  const json host = host_facts(root);
  probe.numa_nodes = value_of<std::uint64_t>(host, "numa_nodes");
  add_memory_facts(probe, root, host);
  add_dirty_limits(probe.dirty, host["vm"]);
  probe.io_uring_disabled = read_number(root / "proc/sys/kernel/io_uring_disabled");
  probe.gpu = gpu_facts(root / "proc/driver/nvidia");
}

Probe probe_storage(const std::string& directory) {
  Probe probe;
  std::error_code failed;
  probe.directory = fs::weakly_canonical(directory, failed);
  if (failed) probe.directory = directory;
  probe.mount = mount_of(directory);
  const dev_t device = device_of(directory, probe.mount);
  const Descriptor file = created_file(probe.directory);
  add_system_facts(probe, "/", device);
  probe.is_memory = keeps_files_in_memory(probe.directory, file.get());
  // Since Linux 6.6 tmpfs accepts the flag and ignores it.
  probe.takes_direct = !probe.is_memory && ::fcntl(file.get(), F_SETFL, O_DIRECT) == 0;
  const json storage = storage_facts(directory);
  probe.direct_align_bytes = value_of<std::uint64_t>(storage, "direct_offset_align_bytes");
  probe.direct_memory_align_bytes = value_of<std::uint64_t>(storage, "direct_memory_align_bytes");
  probe.free_bytes = value_of<std::uint64_t>(storage, "free_bytes");
  const auto paths = io_paths();
  const auto path = std::ranges::find_if(paths, [](const IoPath& row) { return row.traits.moves_device_memory; });
  const std::string why = path == paths.end() ? "not in this build" : path->why_unavailable();
  probe.gpudirect = why.empty() ? "available" : why;
  add_warnings(probe);
  return probe;
}

void require_room(const Probe& probe, std::uint64_t bytes) {
  if (probe.free_bytes.value_or(bytes) >= bytes) return;
  const auto mebibytes = [](std::uint64_t count) { return (count + (1 << 20) - 1) >> 20; };
  throw Error(ErrorCode::kWriteFailed,
              fmt::format("{}: the file system is too full: {} MiB are free, the test files need {} MiB",
                          probe.directory, *probe.free_bytes >> 20, mebibytes(bytes)));
}

json to_json(const Probe& probe) {
  const DirtyLimits& dirty = probe.dirty;
  return {{"file_system", probe.mount ? json(probe.mount->file_system) : json()},
          {"mount_options", probe.mount ? json(probe.mount->options) : json()},
          {"is_network", probe.is_network},
          {"device", device_text(probe)},
          {"scheduler", probe.disk.contains("scheduler") ? probe.disk["scheduler"] : json()},
          {"readahead_bytes", or_null(probe.readahead_bytes)},
          {"raid", raid_text(probe)},
          {"direct_align_bytes", or_null(probe.direct_align_bytes)},
          {"direct_memory_align_bytes", or_null(probe.direct_memory_align_bytes)},
          {"free_bytes", or_null(probe.free_bytes)},
          {"huge_pages", or_null(probe.huge_pages)},
          {"numa_node", or_null(probe.numa_node)},
          {"numa_nodes", or_null(probe.numa_nodes)},
          {"gpu", probe.gpu.is_object() ? probe.gpu["name"] : json()},
          {"gpudirect", probe.gpudirect},
          {"dirty",
           {{"dirty_background_bytes", or_null(dirty.background_bytes)},
            {"dirty_background_ratio", or_null(dirty.background_ratio)},
            {"dirty_bytes", or_null(dirty.bytes)},
            {"dirty_expire_centisecs", or_null(dirty.expire_centisecs)},
            {"dirty_ratio", or_null(dirty.ratio)},
            {"dirty_writeback_centisecs", or_null(dirty.writeback_centisecs)}}}};
}

}  // namespace tzmark::bench
