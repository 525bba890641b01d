// A directory of measured files that does not outlive the program, not even if a signal ends it.
#pragma once

#include <string>

namespace tzmark::bench {

class RemovedDirectory {
 public:
  // Creates PARENT/tzmark-bench-XXXXXX, and PARENT where it does not exist. Throws TZE-ENV rules. One object at a time:
  // SIGINT, SIGTERM and SIGHUP remove its files and itself, and then do what they did before.
  explicit RemovedDirectory(const std::string& parent);
  // Removes it with all that it contains.
  ~RemovedDirectory();
  RemovedDirectory(const RemovedDirectory&) = delete;
  RemovedDirectory& operator=(const RemovedDirectory&) = delete;

  const std::string& name() const { return name_; }

 private:
  std::string name_;
  int parent_ = -1;
};

}  // namespace tzmark::bench
