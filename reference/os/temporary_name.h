// Names of temporary files, which are removed when they are let go or, where a program has asked for it, when a signal
// ends the process.
//
// A TemporaryName is for one thread at a time; different ones are for any threads. Errors: TZE-ENV rules.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "os/directory.h"

namespace tzmark {

class TemporaryName {
 public:
  // Removes the file of this name, if there is one, unless it is released before.
  TemporaryName(std::shared_ptr<const Directory> directory, std::string name);
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;
  ~TemporaryName();

  const std::string& name() const { return name_; }
  // The file has another name now, or this one is no longer temporary.
  void release();

 private:
  const std::shared_ptr<const Directory> directory_;
  const std::string name_;
  std::size_t slot_;
  bool released_ = false;
};

// A name for a temporary file that will be called `name`: NAME.tmp-XXXXXXXX.
std::string temporary_name_for(const std::string& name);

// While it lives, a signal that ends the process waits: what is under way changes several names, or a name that was
// temporary becomes that of the only copy of an old file.
class SignalsDeferred {
 public:
  SignalsDeferred();
  SignalsDeferred(const SignalsDeferred&) = delete;
  SignalsDeferred& operator=(const SignalsDeferred&) = delete;
  ~SignalsDeferred();
};

}  // namespace tzmark
