// What processes have open; see unlinked_files.h.
#include "runner/unlinked_files.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runner/process_tree.h"

namespace tzmark::conformance {
namespace {

constexpr std::uint64_t kStatBlockBytes = 512;

struct Unlinked {
  std::uint64_t bytes = 0;
  bool in_memory = false;
};

// By device and inode, so that several descriptors of a file count once.
using Files = std::map<std::pair<dev_t, ino_t>, Unlinked>;

bool is_in_memory(int descriptors, const char* name) {
  std::array<char, 16> target;
  const ssize_t got = ::readlinkat(descriptors, name, target.data(), target.size());
  const std::string_view begin(target.data(), got < 0 ? 0 : static_cast<std::size_t>(got));
  return begin.starts_with("/memfd:") || begin.starts_with("/dev/shm/");
}

// Returns how many descriptors it has.
std::uint64_t add_unlinked_of(const std::string& process, Files& files) {
  std::uint64_t count = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> descriptors(::opendir(("/proc/" + process + "/fd").c_str()), &::closedir);
  if (!descriptors) return 0;
  while (const dirent* const entry = ::readdir(descriptors.get())) {
    if (!std::isdigit(static_cast<unsigned char>(entry->d_name[0]))) continue;
    ++count;
    struct stat status {};
    // Follows the link to the open file, and never waits for a FIFO.
    if (::fstatat(::dirfd(descriptors.get()), entry->d_name, &status, 0) != 0) continue;
    if (!S_ISREG(status.st_mode) || status.st_nlink != 0) continue;
    files[{status.st_dev, status.st_ino}] = {static_cast<std::uint64_t>(status.st_blocks) * kStatBlockBytes,
                                             is_in_memory(::dirfd(descriptors.get()), entry->d_name)};
  }
  return count;
}

}  // namespace

OpenFiles open_files_below(pid_t pid) {
  Files files;
  OpenFiles open;
  for_each_below(pid, [&](pid_t each) {
    std::uint64_t most = 0;
    // A thread may have descriptors of its own, and the first one may have ended. Most threads share theirs.
    for (const pid_t thread : threads_of(each)) {
      most = std::max(most, add_unlinked_of(fmt::format("{}/task/{}", each, thread), files));
    }
    open.descriptors += most;
  });
  if (files.empty()) return open;
  // A shell's here-document, for example, that programs inherit from this process.
  Files own;
  add_unlinked_of("self", own);
  for (const auto& [identity, file] : files) {
    if (!own.contains(identity)) (file.in_memory ? open.memory_bytes : open.disk_bytes) += file.bytes;
  }
  return open;
}

}  // namespace tzmark::conformance
