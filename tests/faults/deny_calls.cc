// Runs a command in which named system calls fail, as they do in containers and under security modules (seccomp).
//
// usage: deny_calls CALL[=ERRNO]... -- COMMAND [ARGUMENT...]
//   ERRNO is a number (default: EPERM). Exit status: that of the command; 125 if a call is unknown or seccomp is
//   missing, 127 if the command cannot be started.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

struct NamedCall {
  std::string_view name;
  unsigned number;
};

constexpr NamedCall kCalls[] = {
    {"fadvise64", SYS_fadvise64},
    {"fallocate", SYS_fallocate},
    {"fchmod", SYS_fchmod},
    {"fchown", SYS_fchown},
    {"flock", SYS_flock},
    {"fsync", SYS_fsync},
    {"io_uring_setup", SYS_io_uring_setup},
    {"linkat", SYS_linkat},
    {"madvise", SYS_madvise},
    {"memfd_create", SYS_memfd_create},
    {"mincore", SYS_mincore},
    {"mlock", SYS_mlock},
    {"prlimit64", SYS_prlimit64},
#ifdef SYS_rename
    {"rename", SYS_rename},
#endif
#ifdef SYS_renameat
    {"renameat", SYS_renameat},
#endif
    {"renameat2", SYS_renameat2},
    {"sched_getaffinity", SYS_sched_getaffinity},
    {"sched_setaffinity", SYS_sched_setaffinity},
    {"statx", SYS_statx},
    {"sync_file_range", SYS_sync_file_range},
    {"unlinkat", SYS_unlinkat},
    {"unshare", SYS_unshare},
};

constexpr int kUnusable = 125;
constexpr int kNotStarted = 127;

const NamedCall* find(std::string_view name) {
  for (const NamedCall& call : kCalls) {
    if (call.name == name) return &call;
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  int at = 1;
  for (; at < argc && std::string_view(argv[at]) != "--"; ++at) {
    const std::string_view argument = argv[at];
    const std::size_t equals = argument.find('=');
    const unsigned error = equals == argument.npos ? EPERM : static_cast<unsigned>(std::atoi(argv[at] + equals + 1));
    const NamedCall* call = find(argument.substr(0, equals));
    if (call == nullptr) {
      std::fprintf(stderr, "deny_calls: unknown call %s\n", argv[at]);
      return kUnusable;
    }
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call->number, 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error));
  }
  if (at + 1 >= argc) {
    std::fputs("usage: deny_calls CALL[=ERRNO]... -- COMMAND [ARGUMENT...]\n", stderr);
    return kUnusable;
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    std::perror("deny_calls: seccomp");
    return kUnusable;
  }
  ::execvp(argv[at + 1], argv + at + 1);
  std::perror("deny_calls: exec");
  return kNotStarted;
}
