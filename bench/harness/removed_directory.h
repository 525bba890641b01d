// A directory of measured files that does not outlive the program, not even if a signal ends it.
#pragma once

#include <optional>
#include <string>

#include "program/made_directory.h"

namespace tzmark::bench {

class RemovedDirectory {
 public:
  // Creates PARENT/tzmark-bench-xxxxxxxxxxxxxxxx, and PARENT where it does not exist. Throws TZE-ENV rules. One object
  // at a time: SIGINT, SIGTERM and SIGHUP remove its files and itself, and then do what they did before.
  explicit RemovedDirectory(const std::string& parent);
  // Removes it with all that it contains. Prints what it cannot remove.
  ~RemovedDirectory();
  RemovedDirectory(const RemovedDirectory&) = delete;
  RemovedDirectory& operator=(const RemovedDirectory&) = delete;

  const std::string& name() const { return made_->path().native(); }
  // Removes all that it contains. Throws TZE-ENV-003.
  void clear() const;

 private:
  std::optional<MadeDirectory> made_;  // always there: it is made while signals are blocked
};

}  // namespace tzmark::bench
