// posix_spawn, pidfd and waitpid; see process.h.
#include "harness/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "harness/errno_error.h"

namespace tzmark::bench {
namespace {

constexpr std::size_t kTailBytes = 2000;

// For calls that return their error instead of setting errno.
void require_success(const char* call, int error) {
  errno = error;
  if (error != 0) throw errno_error(ErrorCode::kResource, call);
}

// Descriptors, signals and process group of the child.
class SpawnSettings {
 public:
  SpawnSettings(int stdin_fd, int stdout_fd, int stderr_fd) {
    require_success("posix_spawn_file_actions_init", ::posix_spawn_file_actions_init(&actions_));
    require_success("posix_spawnattr_init", ::posix_spawnattr_init(&attributes_));
    require_success("dup2", ::posix_spawn_file_actions_adddup2(&actions_, stdin_fd, STDIN_FILENO));
    require_success("dup2", ::posix_spawn_file_actions_adddup2(&actions_, stdout_fd, STDOUT_FILENO));
    require_success("dup2", ::posix_spawn_file_actions_adddup2(&actions_, stderr_fd, STDERR_FILENO));
    // A group of its own, so that its children end with it; signals have their default actions.
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    require_success("posix_spawnattr_setflags",
                    ::posix_spawnattr_setflags(&attributes_,
                                               POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

std::string end_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("exit status {}", WEXITSTATUS(status));
}

}  // namespace

OutputFile::OutputFile() : file_(std::tmpfile()) {
  if (!file_) throw errno_error(ErrorCode::kResource, "tmpfile");
  ::fcntl(descriptor(), F_SETFD, FD_CLOEXEC);
}

std::string OutputFile::text() const {
  struct stat status {};
  if (::fstat(descriptor(), &status) != 0) throw errno_error(ErrorCode::kResource, "fstat");
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    // pread, because the child's descriptor shares the file position with this one.
    const ssize_t got = ::pread(descriptor(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  return text;
}

std::string OutputFile::tail() const {
  std::string text = this->text();
  if (text.size() > kTailBytes) text.erase(0, text.size() - kTailBytes);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::ranges::replace(text, '\n', ' ');
  return text;
}

Child::Child(const std::vector<std::string>& argv, int stdin_fd, int stdout_fd, int stderr_fd) {
  std::vector<char*> words;
  words.reserve(argv.size() + 1);
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const SpawnSettings settings(stdin_fd, stdout_fd, stderr_fd);
  if (const int error =
          ::posix_spawnp(&pid_, words[0], settings.actions(), settings.attributes(), words.data(), environ);
      error != 0) {
    throw Error(ErrorCode::kUnavailable, fmt::format("{} cannot be started: {}", argv[0], std::strerror(error)));
  }
  // The system call by number, because glibc 2.36 declares pidfd_open without C linkage.
  exit_notice_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (exit_notice_.get() < 0) {
    const Error error = errno_error(ErrorCode::kResource, "pidfd_open");
    kill();
    throw error;
  }
}

Child::~Child() { kill(); }

std::optional<std::string> Child::wait_until(Clock::time_point deadline) {
  while (!end_) {
    const auto left = std::max(Clock::duration::zero(), deadline - Clock::now());
    const timespec timeout = {left / std::chrono::seconds(1), (left % std::chrono::seconds(1)).count()};
    pollfd exit = {exit_notice_.get(), POLLIN, 0};
    const int ready = ::ppoll(&exit, 1, &timeout, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) throw errno_error(ErrorCode::kResource, "ppoll");
    if (ready == 0) return {};
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    end_ = end_of(status);
    // Ends what the child has started.
    ::kill(-pid_, SIGKILL);
  }
  return end_;
}

void Child::kill() {
  if (end_) return;
  ::kill(-pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  end_ = end_of(status);
}

CommandResult run_command(const std::vector<std::string>& argv, std::chrono::milliseconds timeout) {
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (nothing.get() < 0) throw errno_error(ErrorCode::kResource, "/dev/null");
  const OutputFile output;
  const OutputFile error;
  Child child(argv, nothing.get(), output.descriptor(), error.descriptor());
  const auto end = child.wait_until(Clock::now() + timeout);
  if (!end) child.kill();
  const auto seconds = std::chrono::duration<double>(timeout).count();
  return {end.value_or(fmt::format("timed out after {} s", seconds)), output.text(), error.tail()};
}

}  // namespace tzmark::bench
