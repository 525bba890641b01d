// What is below a process; see process_tree.h.
#include "runner/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <memory>
#include <sstream>

#include "runner/errors.h"

namespace tzmark::conformance {
namespace {

constexpr std::size_t kNamedMax = 10;

std::string read_small(int directory, const char* name) {
  const int fd = ::openat(directory, name, O_RDONLY | O_CLOEXEC);
  std::string text;
  if (fd < 0) return text;
  std::array<char, 4096> block;
  for (ssize_t got = 0; (got = ::read(fd, block.data(), block.size())) > 0;) {
    text.append(block.data(), static_cast<std::size_t>(got));
  }
  ::close(fd);
  return text;
}

void append_ids(const std::string& text, std::vector<pid_t>& pids) {
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    pid_t pid = 0;
    const auto [after, error] = std::from_chars(at, end, pid);
    if (error == std::errc()) pids.push_back(pid);
    at = std::max(after, at + 1);
  }
}

}  // namespace

void require_children_lists() {
  if (::access("/proc/thread-self/children", R_OK) == 0) return;
  throw EnvironmentError(
      "/proc does not list the children of processes: mount proc there, on a kernel with CONFIG_PROC_CHILDREN");
}

std::string start_time_of(pid_t pid) {
  const std::string text = read_small(AT_FDCWD, fmt::format("/proc/{}/stat", pid).c_str());
  // The name, which may hold anything, stands in parentheses, and the time is the 20th field after it.
  const std::size_t name_end = text.rfind(')');
  std::istringstream fields(name_end == text.npos ? "" : text.substr(name_end + 1));
  std::string field;
  for (int i = 0; i < 20; ++i) fields >> field;
  return field;
}

std::vector<pid_t> threads_of(pid_t pid) {
  const std::string directory = fmt::format("/proc/{}/task", pid);
  // It has two links, and one per thread. Most processes have one thread, and a listing takes longer.
  struct stat status {};
  if (::stat(directory.c_str(), &status) == 0 && status.st_nlink == 3) return {pid};
  std::vector<pid_t> threads;
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir(directory.c_str()), &::closedir);
  while (const dirent* const task = tasks ? ::readdir(tasks.get()) : nullptr) append_ids(task->d_name, threads);
  return threads;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  // Each thread has its own children.
  for (const pid_t thread : threads_of(pid)) {
    append_ids(read_small(AT_FDCWD, fmt::format("/proc/{}/task/{}/children", pid, thread).c_str()), children);
  }
  return children;
}

void for_each_below(pid_t pid, const std::function<void(pid_t)>& visit) {
  // No recursion: a program may nest its processes deeper than the stack of this one reaches.
  std::vector<pid_t> open = {pid};
  while (!open.empty()) {
    const std::vector<pid_t> children = children_of(open.back());
    open.pop_back();
    for (const pid_t child : children) visit(child);
    open.insert(open.end(), children.begin(), children.end());
  }
}

void kill_below(pid_t pid) {
  for_each_below(pid, [](pid_t each) { ::kill(each, SIGKILL); });
}

std::string names_of(const std::vector<pid_t>& pids) {
  std::string text;
  for (std::size_t i = 0; i < std::min(pids.size(), kNamedMax); ++i) {
    std::string name;
    std::getline(std::ifstream(fmt::format("/proc/{}/comm", pids[i])), name);
    text += fmt::format("{}{} ({})", i > 0 ? ", " : "", pids[i], name);
  }
  if (pids.size() > kNamedMax) text += fmt::format(" and {} more", pids.size() - kNamedMax);
  return text;
}

}  // namespace tzmark::conformance
