// Limits the memory of the process, for tests.
//
// Thread-safety: the limit holds for all threads.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

namespace tzmark::conformance::model {

// While it lives, the address space of the process can grow by so many bytes only.
class LittleMemory {
 public:
  explicit LittleMemory(std::uint64_t bytes) {
    std::uint64_t pages = 0;
    if (!(std::ifstream("/proc/self/statm") >> pages)) throw std::runtime_error("the size of the process is unknown");
    if (getrlimit(RLIMIT_AS, &before_) != 0) throw std::runtime_error("the limit of memory cannot be read");
    rlimit little = before_;
    little.rlim_cur = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) + bytes;
    if (setrlimit(RLIMIT_AS, &little) != 0) throw std::runtime_error("the memory cannot be limited");
  }
  ~LittleMemory() { setrlimit(RLIMIT_AS, &before_); }
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;

 private:
  rlimit before_{};
};

}  // namespace tzmark::conformance::model
