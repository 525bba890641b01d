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
  // One that another process of the same program has made, and removes: here signals alone remove it, which may be all
  // that is left of that program. Throws TZE-ENV-001 if it is not there, or not what this class makes.
  struct OfAnother {
    std::string name;
  };
  explicit RemovedDirectory(const OfAnother& directory);
  // Removes it with all that it contains, if this object has made it. Prints what it cannot remove.
  ~RemovedDirectory();
  RemovedDirectory(const RemovedDirectory&) = delete;
  RemovedDirectory& operator=(const RemovedDirectory&) = delete;

  const std::string& name() const { return made_->path().native(); }
  // Removes all that it contains. Throws TZE-ENV-003.
  void clear() const;

 private:
  void remove_at_signals();

  std::optional<MadeDirectory> made_;  // always there: it is made while signals are blocked
  bool is_ours_ = true;
};

}  // namespace tzmark::bench
