// tzmark-read-only [--restrict] DIR COMMAND...: becomes the command, for which DIR is on a read-only mount. With
// --restrict it first enters the Landlock ruleset of descriptor 3, if there is one, under which nothing can be mounted.
//
// The permissions of a file do not bind root, and a mount binds everybody. It is made in a mount namespace of its own,
// inside of a user namespace where it takes one, so that no other process sees it and nothing has to be undone.
//
// Exit status: that of the command; 125 if there is no such mount to be had; 126 if the command cannot be started.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "runner/restrict_self.h"

namespace {

namespace fs = std::filesystem;

constexpr int kUnavailableStatus = 125;
constexpr int kNotStartedStatus = 126;

// mount_setattr(2), which glibc has since 2.36 only.
constexpr long kMountSetattr = 442;  // on every architecture
constexpr unsigned kRecursive = 0x8000;
constexpr std::uint64_t kReadOnly = 1;
struct MountAttributes {
  std::uint64_t set = 0, clear = 0, propagation = 0, user_namespace = 0;
};

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

void write_line(const char* file, const std::string& text) {
  std::ofstream out(file);
  out << text << std::flush;
  if (!out) fail(file);
}

// A process may mount in a user namespace that it makes. The user stays the same.
void enter_namespaces() {
  if (::unshare(CLONE_NEWNS) == 0) return;
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) fail("no mount namespace");
  write_line("/proc/self/setgroups", "deny");
  write_line("/proc/self/uid_map", fmt::format("{} {} 1", uid, uid));
  write_line("/proc/self/gid_map", fmt::format("{} {} 1", gid, gid));
}

void mount_read_only(const fs::path& directory) {
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) fail("mounts cannot be made private");
  if (::mount(directory.c_str(), directory.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) fail(directory.string());
  const MountAttributes attributes{.set = kReadOnly};
  if (::syscall(kMountSetattr, AT_FDCWD, directory.c_str(), kRecursive, &attributes, sizeof attributes) != 0) {
    fail(directory.string());
  }
  // A working directory in the directory stays below the mount until it is entered again.
  if (::chdir(fs::current_path().c_str()) != 0) fail("working directory");
  struct statvfs status {};
  if (::statvfs(directory.c_str(), &status) != 0) fail(directory.string());
  if ((status.f_flag & ST_RDONLY) == 0) throw std::runtime_error(directory.string() + " can still be written to");
}

// The ruleset of a kernel that has none is not there.
void restrict_this_process() {
  using tzmark::conformance::kRulesetDescriptor;
  const int ruleset = ::fcntl(kRulesetDescriptor, F_SETFD, FD_CLOEXEC) == 0 ? kRulesetDescriptor : -1;
  if (!tzmark::conformance::enter_restriction(ruleset)) fail("the process cannot be contained");
}

}  // namespace

int main(int argc, char** argv) {
  const bool restricted = argc > 1 && std::string_view(argv[1]) == tzmark::conformance::kRestrictOption;
  argc -= restricted ? 1 : 0;
  argv += restricted ? 1 : 0;
  if (argc < 3) {
    fmt::print(stderr, "usage: tzmark-read-only [--restrict] DIR COMMAND...\n");
    return kUnavailableStatus;
  }
  try {
    // A change of credentials makes the kernel forget that this process is to die with its parent.
    int death_signal = 0;
    ::prctl(PR_GET_PDEATHSIG, &death_signal);
    enter_namespaces();
    ::prctl(PR_SET_PDEATHSIG, death_signal);
    mount_read_only(fs::canonical(argv[1]));
    if (restricted) restrict_this_process();
  } catch (const std::exception& error) {
    fmt::print(stderr, "tzmark-read-only: no read-only mount can be had here: {}\n", error.what());
    return kUnavailableStatus;
  }
  ::execvp(argv[2], argv + 2);
  fmt::print(stderr, "tzmark-read-only: {}: {}\n", argv[2], std::strerror(errno));
  return kNotStartedStatus;
}
