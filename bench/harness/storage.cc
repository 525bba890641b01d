// Facts about the storage of a directory; see machine.h.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "harness/disks.h"
#include "harness/errno_error.h"
#include "harness/machine.h"
#include "harness/mount.h"
#include "harness/or_null.h"
#include "harness/small_file.h"
#include "tzmark/descriptor.h"
#include "tzmark/io.h"

// From Linux 6.1 on; the C library's headers may be older than the kernel.
#ifndef STATX_DIOALIGN
#define STATX_DIOALIGN 0x00002000U
#endif

namespace tzmark::bench {
namespace {

using nlohmann::json;

// Creates an unnamed file in the directory, because the kernel reports alignment for files only.
Descriptor nameless_file(const std::string& directory) {
  Descriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.get() >= 0) return file;
  std::string name = directory + "/.tzmark-alignment-XXXXXX";
  Descriptor named(::mkostemp(name.data(), O_CLOEXEC));
  if (named.get() >= 0) ::unlink(name.c_str());
  return named;
}

// Zero means no direct I/O; null means that the kernel does not report it or that the directory is read-only.
void add_alignment(json& facts, const std::string& directory) {
  facts["direct_memory_align_bytes"] = nullptr;
  facts["direct_offset_align_bytes"] = nullptr;
  const Descriptor file = nameless_file(directory);
  struct statx status {};
  if (file.get() < 0 || ::statx(file.get(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) != 0) return;
  if ((status.stx_mask & STATX_DIOALIGN) == 0) return;
  facts["direct_memory_align_bytes"] = status.stx_dio_mem_align;
  facts["direct_offset_align_bytes"] = status.stx_dio_offset_align;
}

// Reports the queue of the first disk; the disks of an array are usually equal.
void add_device(json& facts, const std::string& directory) {
  const std::vector<std::string> disks = disks_below(directory);
  facts["device"] = disks.empty() ? json() : json(fmt::format("{}", fmt::join(disks, "+")));
  facts.update(disk_facts(std::filesystem::path("/sys/class/block") / (disks.empty() ? "-" : disks.front())));
}

// Nothing where the file system does not report its size, as ramfs and many mounts of FUSE: their zeros do not say that
// they are full.
std::optional<std::uint64_t> free_bytes(const std::string& directory) {
  struct statvfs room {};
  if (::statvfs(directory.c_str(), &room) != 0) throw errno_error(ErrorCode::kReadFailed, directory);
  if (room.f_blocks == 0) return {};
  return static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize;
}

// What is known of the storage behind a URL.
json server_facts(const std::string& url) {
  json facts;
  for (const char* name : {"mount_options", "device", "device_model", "rotational", "scheduler", "readahead_bytes",
                           "write_cache", "queue_requests", "logical_block_bytes", "physical_block_bytes",
                           "direct_memory_align_bytes", "direct_offset_align_bytes", "free_bytes"}) {
    facts[name] = nullptr;
  }
  const std::string shown = display_name(url);
  facts["directory"] = shown;
  facts["file_system"] = shown.substr(0, shown.find(':'));
  return facts;
}

}  // namespace

json disk_facts(const std::filesystem::path& disk) {
  const std::filesystem::path queue = disk / "queue";
  const auto rotational = read_number(queue / "rotational");
  const auto schedulers = read_value(queue / "scheduler");
  const auto readahead_kb = read_number(queue / "read_ahead_kb");
  return {{"device_model", or_null(read_value(disk / "device" / "model"))},
          {"rotational", rotational ? json(*rotational != 0) : json()},
          {"scheduler", schedulers ? or_null(chosen(*schedulers)) : json()},
          {"readahead_bytes", readahead_kb ? json(*readahead_kb * 1024) : json()},
          {"write_cache", or_null(read_value(queue / "write_cache"))},
          {"queue_requests", or_null(read_number(queue / "nr_requests"))},
          {"logical_block_bytes", or_null(read_number(queue / "logical_block_size"))},
          {"physical_block_bytes", or_null(read_number(queue / "physical_block_size"))}};
}

json storage_facts(const std::string& directory) {
  if (is_url(directory)) return server_facts(directory);
  const auto mount = mount_of(directory);
  json facts = {{"directory", directory},
                {"file_system", mount ? json(mount->file_system) : json()},
                {"mount_options", mount ? json(mount->options) : json()},
                {"free_bytes", or_null(free_bytes(directory))}};
  add_device(facts, directory);
  add_alignment(facts, directory);
  return facts;
}

}  // namespace tzmark::bench
