// What the kernel keeps an adapter from; see restrict.h.
#include "runner/restrict.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "runner/restrict_self.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

// Landlock's numbers, which the headers of Debian 12 know in part only.
constexpr long kLandlockCreateRuleset = 444;  // on every architecture
constexpr long kLandlockAddRule = 445;
constexpr unsigned kVersionFlag = 1;
constexpr int kPathRule = 1;
constexpr int kPortRule = 2;
constexpr std::uint64_t kWriteFile = 1u << 1;
constexpr std::uint64_t kRemoveDirectory = 1u << 4;
constexpr std::uint64_t kRemoveFile = 1u << 5;
constexpr std::uint64_t kMakeCharacterDevice = 1u << 6;
constexpr std::uint64_t kMakeDirectory = 1u << 7;
constexpr std::uint64_t kMakeFile = 1u << 8;
constexpr std::uint64_t kMakeSocket = 1u << 9;
constexpr std::uint64_t kMakeFifo = 1u << 10;
constexpr std::uint64_t kMakeBlockDevice = 1u << 11;
constexpr std::uint64_t kMakeLink = 1u << 12;
constexpr std::uint64_t kRefer = 1u << 13;        // since version 2
constexpr std::uint64_t kTruncate = 1u << 14;     // 3
constexpr std::uint64_t kDeviceIoctl = 1u << 15;  // 5
constexpr std::uint64_t kBindTcp = 1u << 0;       // 4
constexpr std::uint64_t kConnectTcp = 1u << 1;
constexpr std::uint64_t kScopeAbstractSockets = 1u << 0;  // 6
constexpr std::uint64_t kScopeSignals = 1u << 1;

constexpr int kTruncateVersion = 3;
constexpr int kTcpVersion = 4;
constexpr int kIoctlVersion = 5;
constexpr int kScopeVersion = 6;

struct RulesetAttributes {
  std::uint64_t files = 0;
  std::uint64_t net = 0;
  std::uint64_t scoped = 0;
};

struct [[gnu::packed]] PathAttributes {
  std::uint64_t allowed = 0;
  std::int32_t parent = -1;
};

struct PortAttributes {
  std::uint64_t allowed = 0;
  std::uint64_t port = 0;
};

// 0 on a kernel without Landlock, or one that was started without it.
int landlock_version() {
  static const auto version =
      static_cast<int>(::syscall(kLandlockCreateRuleset, nullptr, std::size_t{0}, kVersionFlag));
  return std::max(version, 0);
}

std::uint64_t governed_rights(int version) {
  std::uint64_t rights = kWriteFile | kRemoveDirectory | kRemoveFile | kMakeCharacterDevice | kMakeDirectory |
                         kMakeFile | kMakeSocket | kMakeFifo | kMakeBlockDevice | kMakeLink;
  if (version >= 2) rights |= kRefer;
  if (version >= kTruncateVersion) rights |= kTruncate;
  if (version >= kIoctlVersion) rights |= kDeviceIoctl;
  return rights;
}

void permit(int ruleset, const fs::path& path, std::uint64_t rights) {
  const Descriptor opened(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status {};
  if (!opened.open() || ::fstat(opened.get(), &status) != 0) fail_call(path.c_str());
  // Devices are made nowhere, and a file has no directory's rights.
  rights &= ~(kMakeCharacterDevice | kMakeBlockDevice);
  if (!S_ISDIR(status.st_mode)) rights &= kWriteFile | kTruncate | kDeviceIoctl;
  const PathAttributes rule{rights, opened.get()};
  if (::syscall(kLandlockAddRule, ruleset, kPathRule, &rule, 0) != 0) {
    fail_call(fmt::format("landlock_add_rule of {}", path.native()).c_str());
  }
}

Descriptor make_ruleset(const Containment& containment, const std::vector<fs::path>& own) {
  // What programs write to that ends nowhere.
  constexpr std::array<const char*, 3> kSinks = {"/dev/null", "/dev/zero", "/dev/full"};
  const int version = landlock_version();
  if (version == 0) return {};
  const Permissions& permissions = containment.permissions;
  RulesetAttributes attributes{.files = governed_rights(version)};
  if (version >= kTcpVersion && !permissions.network) attributes.net = kBindTcp | kConnectTcp;
  if (version >= kScopeVersion) {
    attributes.scoped = permissions.network ? kScopeSignals : kScopeSignals | kScopeAbstractSockets;
  }
  const std::size_t attributes_bytes = version >= kScopeVersion ? sizeof attributes
                                       : version >= kTcpVersion ? offsetof(RulesetAttributes, scoped)
                                                                : offsetof(RulesetAttributes, net);
  Descriptor ruleset(static_cast<int>(::syscall(kLandlockCreateRuleset, &attributes, attributes_bytes, 0)));
  if (!ruleset.open()) fail_call("landlock_create_ruleset");
  for (const char* const sink : kSinks) {
    // Some containers lack the last of them.
    if (fs::exists(sink)) permit(ruleset.get(), sink, attributes.files);
  }
  for (const fs::path& path : own) permit(ruleset.get(), path, attributes.files);
  for (const fs::path& path : permissions.writable) permit(ruleset.get(), path, attributes.files);
  if (attributes.net != 0 && containment.server_port) {
    const PortAttributes rule{kConnectTcp, *containment.server_port};
    if (::syscall(kLandlockAddRule, ruleset.get(), kPortRule, &rule, 0) != 0) fail_call("landlock_add_rule of a port");
  }
  return ruleset;
}

// The system calls of an instruction set, by their numbers.
struct Calls {
  std::uint32_t socket, socketpair, prlimit, setrlimit;
  std::vector<std::uint32_t> others_of_network;
  // Of queues, segments, semaphores and keys, which outlive the process that made them, and may be those of others.
  std::vector<std::uint32_t> lasting;
};

#if defined(__x86_64__)
constexpr std::uint32_t kNativeArchitecture = AUDIT_ARCH_X86_64;
constexpr std::uint32_t kNumberMask = ~0x40000000u;  // without the mark of x32
// For 32-bit programs; 102 and 117 are socketcall and ipc, which carry all of theirs.
const Calls kForeignCalls = {
    359, 360, 340, 75, {102, 425}, {117, 277, 278, 286, 287, 288, 393, 394, 395, 396, 397, 399, 400, 401, 402, 420}};
#elif defined(__aarch64__)
constexpr std::uint32_t kNativeArchitecture = AUDIT_ARCH_AARCH64;
constexpr std::uint32_t kNumberMask = ~0u;
const Calls kForeignCalls = {
    281, 288, 369, 75, {425}, {274, 275, 298, 299, 300, 301, 302, 303, 304, 305, 307, 308, 309, 310, 311, 312, 420}};
#else
constexpr std::uint32_t kNativeArchitecture = 0;
constexpr std::uint32_t kNumberMask = ~0u;
const Calls kForeignCalls = {};
#endif

// io_uring makes sockets without the system call for them.
constexpr std::uint32_t kIoUringSetup = 425;  // on every architecture

Calls native_calls() {
  return {SYS_socket,
          SYS_socketpair,
          SYS_prlimit64,
          SYS_setrlimit,
          {kIoUringSetup},
          {SYS_shmget, SYS_shmat, SYS_shmctl, SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl, SYS_msgget, SYS_msgsnd,
           SYS_msgrcv, SYS_msgctl, SYS_mq_open, SYS_mq_unlink, SYS_add_key, SYS_request_key, SYS_keyctl}};
}

class Filter {
 public:
  explicit Filter(const Containment& containment) : containment_(containment) {
    code_.push_back(load(offsetof(seccomp_data, arch)));
    std::vector<sock_filter> foreign = calls(kForeignCalls, /*is_native=*/false);
    // Jumps over what is for the other instruction set.
    code_.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kNativeArchitecture, static_cast<std::uint8_t>(foreign.size()), 0));
    append(code_, foreign);
    append(code_, calls(native_calls(), /*is_native=*/true));
  }

  std::vector<sock_filter> take() { return std::move(code_); }

 private:
  using Code = std::vector<sock_filter>;

  static constexpr sock_filter kRefuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  static constexpr sock_filter kPretend = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0);
  static constexpr sock_filter kAllow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  static constexpr std::uint32_t kTypeMask = 0xf;  // of sockets, without SOCK_CLOEXEC and SOCK_NONBLOCK

  static sock_filter load(std::size_t offset) {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
  }
  // On both processors, the lower half of an argument comes first.
  static sock_filter load_low(std::size_t argument) {
    return load(offsetof(seccomp_data, args) + argument * sizeof(std::uint64_t));
  }
  static sock_filter load_high(std::size_t argument) {
    return load(offsetof(seccomp_data, args) + argument * sizeof(std::uint64_t) + sizeof(std::uint32_t));
  }
  static sock_filter jump_if_equal(std::uint32_t value, std::uint8_t over_if, std::uint8_t over_else) {
    return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, over_if, over_else);
  }

  static void append(Code& code, const Code& more) { code.insert(code.end(), more.begin(), more.end()); }

  // What is done for one call alone; more has to end with an answer.
  static void append_for(Code& code, std::uint32_t number, const Code& more) {
    code.push_back(jump_if_equal(number, 0, static_cast<std::uint8_t>(more.size())));
    append(code, more);
  }

  // Lets a program make TCP sockets for the server of the suite, which has an address of IPv4. Landlock does not bound
  // other protocols, nor a server of the program, nor a connection that begins with data.
  static void allow_streams(Code& code, std::uint32_t socket_number) {
    append_for(code, socket_number,
               {load_low(0), jump_if_equal(AF_INET, 0, 6), load_low(1), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kTypeMask),
                jump_if_equal(SOCK_STREAM, 0, 3), load_low(2), jump_if_equal(0, 2, 0), jump_if_equal(IPPROTO_TCP, 1, 0),
                kRefuse, kAllow});
    append_for(code, SYS_listen, {kRefuse});
    const auto refuse_data_first = [&](std::uint32_t number, std::size_t flags_argument) {
      append_for(code, number,
                 {load_low(flags_argument), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MSG_FASTOPEN, 0, 1), kRefuse, kAllow});
    };
    refuse_data_first(SYS_sendto, 3);
    refuse_data_first(SYS_sendmsg, 2);
    refuse_data_first(SYS_sendmmsg, 3);
  }

  // Datagrams of a pair may be sent to other sockets of this machine by their names.
  static void limit_pairs(Code& code, std::uint32_t socketpair_number) {
    append_for(code, socketpair_number,
               {load_low(0), jump_if_equal(AF_UNIX, 0, 4), load_low(1), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kTypeMask),
                jump_if_equal(SOCK_STREAM, 2, 0), jump_if_equal(SOCK_SEQPACKET, 1, 0), kRefuse, kAllow});
  }

  // Keeps a program from changing limits of other processes, which may end them, and its own of core dumps: many
  // programs set that to 0, with which a program of the system would still get one.
  static void keep_limits(Code& code, std::uint32_t prlimit_number, std::uint32_t setrlimit_number) {
    append_for(code, prlimit_number,
               {load_low(2), jump_if_equal(0, 0, 2), load_high(2), jump_if_equal(0, 6, 0), load_low(0),
                jump_if_equal(0, 0, 3), load_low(1), jump_if_equal(RLIMIT_CORE, 0, 2), kPretend, kRefuse, kAllow});
    append_for(code, setrlimit_number, {load_low(0), jump_if_equal(RLIMIT_CORE, 0, 1), kPretend, kAllow});
  }

  Code calls(const Calls& numbers, bool is_native) const {
    Code code = {load(offsetof(seccomp_data, nr)), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kNumberMask)};
    for (const std::uint32_t number : numbers.lasting) append_for(code, number, {kRefuse});
    keep_limits(code, numbers.prlimit, numbers.setrlimit);
    if (!containment_.permissions.network) {
      for (const std::uint32_t number : numbers.others_of_network) append_for(code, number, {kRefuse});
      limit_pairs(code, numbers.socketpair);
      if (containment_.server_port && is_native) {
        allow_streams(code, numbers.socket);
      } else {
        append_for(code, numbers.socket, {kRefuse});
      }
    }
    code.push_back(kAllow);
    return code;
  }

  const Containment& containment_;
  Code code_;
};

bool has_filters() {
  // Refuses the pointer if it knows the call.
  static const bool has =
      kNativeArchitecture != 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, nullptr, 0, 0) != 0 && errno == EFAULT;
  return has;
}

// Whether root has the right to give up capabilities for all that it starts.
bool can_drop_capabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  return ::syscall(SYS_capget, &header, data.data()) == 0 && (data[0].effective & (1u << CAP_SETPCAP)) != 0;
}

// Lowers a limit, also for what may raise it again otherwise.
bool limit_to(__rlimit_resource_t resource, rlim_t most) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return false;
  limit.rlim_max = std::min(limit.rlim_max, most);
  limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
  return ::setrlimit(resource, &limit) == 0;
}

}  // namespace

Restriction::Restriction(const Containment& containment, const std::vector<fs::path>& own)
    : ruleset_(make_ruleset(containment, own)), enters_ruleset_itself_(containment.enters_ruleset_itself) {
  if (has_filters()) filter_ = Filter(containment).take();
}

bool Restriction::enter() const {
  // A core would be written to the working directory, or given to a program of the system: 1 byte forbids both.
  if (!limit_to(RLIMIT_CORE, 1) || !limit_to(RLIMIT_NOFILE, kProcessFilesMax)) return false;
  if (enters_ruleset_itself_) {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  } else if (!enter_restriction(ruleset_.get())) {
    return false;
  }
  if (filter_.empty()) return true;
  const sock_fprog program = {static_cast<unsigned short>(filter_.size()), const_cast<sock_filter*>(filter_.data())};
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

bool passes_variable(std::string_view name) {
  constexpr std::array<std::string_view, 51> kNames = {"PATH",           "HOME",
                                                       "USER",           "LOGNAME",
                                                       "SHELL",          "LANG",
                                                       "LANGUAGE",       "TZ",
                                                       "TERM",           "TMPDIR",
                                                       "no_proxy",       "NO_PROXY",
                                                       "http_proxy",     "HTTP_PROXY",
                                                       "https_proxy",    "HTTPS_PROXY",
                                                       "all_proxy",      "ALL_PROXY",
                                                       "VIRTUAL_ENV",    "CONDA_PREFIX",
                                                       "GOPATH",         "GOROOT",
                                                       "GOCACHE",        "GOMODCACHE",
                                                       "GOFLAGS",        "GOMAXPROCS",
                                                       "GODEBUG",        "GOMEMLIMIT",
                                                       "GOGC",           "CARGO_HOME",
                                                       "RUSTUP_HOME",    "RUSTFLAGS",
                                                       "RUST_BACKTRACE", "RUST_LOG",
                                                       "JAVA_HOME",      "JAVA_TOOL_OPTIONS",
                                                       "CLASSPATH",      "NODE_PATH",
                                                       "NODE_OPTIONS",   "XDG_CACHE_HOME",
                                                       "XDG_DATA_HOME",  "XDG_CONFIG_HOME",
                                                       "DOTNET_ROOT",    "JULIA_DEPOT_PATH",
                                                       "HF_HOME",        "TORCH_HOME",
                                                       "ASAN_OPTIONS",   "LSAN_OPTIONS",
                                                       "MSAN_OPTIONS",   "TSAN_OPTIONS",
                                                       "UBSAN_OPTIONS"};
  constexpr std::array<std::string_view, 12> kPrefixes = {
      "TZMARK_", "LC_", "LD_", "PYTHON", "OMP_", "MKL_", "OPENBLAS_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "MALLOC_"};
  return std::ranges::find(kNames, name) != kNames.end() ||
         std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::vector<std::string> containment_gaps(const Permissions& permissions) {
  std::vector<std::string> gaps;
  const int version = landlock_version();
  if (version == 0) {
    gaps.emplace_back("this kernel has no Landlock: the adapter may write wherever its user may");
  } else if (version < kTruncateVersion) {
    gaps.emplace_back("this kernel's Landlock is older than Linux 6.2: the adapter may truncate files of its user");
  }
  if (version < kScopeVersion) {
    gaps.emplace_back(
        "this kernel has no scopes of Landlock (Linux 6.12): the adapter may send signals to processes of its user");
  }
  if (!has_filters()) gaps.emplace_back("no seccomp filter here: the adapter may use the network");
  if (::geteuid() == 0 && !can_drop_capabilities()) {
    gaps.emplace_back("root without CAP_SETPCAP: the adapter keeps the capabilities of the suite");
  }
  for (const fs::path& path : permissions.writable) {
    gaps.push_back(fmt::format("--allow-writes: the adapter may write to {}", path.string()));
  }
  if (permissions.network) gaps.emplace_back("--allow-network: the adapter may use the network");
  return gaps;
}

}  // namespace tzmark::conformance
