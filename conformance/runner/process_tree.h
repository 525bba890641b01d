// The descendants of a process, from /proc.
//
// Thread-safety: pure functions of what the system says at the moment.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace tzmark::conformance {

// Throws EnvironmentError if the system does not list children.
void require_children_lists();

// The start time of a process, which distinguishes it from a later one with its id. Empty if the process is gone.
std::string start_time_of(pid_t pid);

// The ids of its threads, each a directory of /proc/PID/task. Empty if the process is gone.
std::vector<pid_t> threads_of(pid_t pid);

// Empty if the process is gone.
std::vector<pid_t> children_of(pid_t pid);

// Calls visit with the id of every process below this one, parents first. What starts or ends meanwhile may be missed.
void for_each_below(pid_t pid, const std::function<void(pid_t)>& visit);

// Sends SIGKILL to every process below this one.
void kill_below(pid_t pid);

// "12 (sleep), 13 (python3)": the first of these processes, for an error message.
std::string names_of(const std::vector<pid_t>& pids);

}  // namespace tzmark::conformance
