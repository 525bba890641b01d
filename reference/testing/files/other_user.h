// For tests: what another user of the machine does.
#pragma once

#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

namespace tzmark::test {

inline constexpr uid_t kOtherUser = 65534;  // without rights

// Only root can become another user.
inline bool can_be_other_user() { return ::geteuid() == 0; }
inline constexpr const char* kNoOtherUser = "only root can act as a second user";

// Runs an action in a child process of the other user, and returns its result, below 255, or 255 if there is none. The
// action calls nothing that takes a lock. REQUIRES: can_be_other_user().
inline int as_other_user(const std::function<int()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool became = ::setgroups(0, nullptr) == 0 && ::setgid(kOtherUser) == 0 && ::setuid(kOtherUser) == 0;
    ::_exit(became ? action() : 255);
  }
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

}  // namespace tzmark::test
