// Names of temporary files, which are removed by the destructor and, if a program asks for it, when a signal ends the
// process.
//
// Thread-safety: distinct objects may be used by distinct threads. Errors: TZE-ENV rules.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "os/directory.h"

namespace tzmark {

class TemporaryName {
 public:
  // The destructor removes the file of this name, if there is one, unless release was called.
  TemporaryName(std::shared_ptr<const Directory> directory, std::string name);
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;
  ~TemporaryName();

  const std::string& name() const { return name_; }
  // For a file that was renamed, or whose name is no longer temporary.
  void release();

 private:
  const std::shared_ptr<const Directory> directory_;
  const std::string name_;
  std::size_t slot_;
  bool released_ = false;
};

// Creates a file that gets the temporary name later, by Directory::give_name, so that no kill leaves its content
// behind. Where that is not possible, as a trial with an empty file shows, returns an empty descriptor; the caller then
// creates the file under its temporary name.
Descriptor create_without_name(const Directory& directory, const TemporaryName& temporary, mode_t mode);

// Returns a name for a temporary file that will be called `name`: NAME.tmp-XXXXXXXX, with less of NAME if that with
// tail_bytes more would be too long. It may contain a path.
std::string temporary_name_for(const std::string& name, std::size_t tail_bytes = 0);

// Returns the longest beginning of a name, in whole characters of UTF-8, that leaves room for so many bytes.
std::string_view shortened_name(std::string_view name, std::size_t tail_bytes);
inline constexpr std::size_t kTemporaryTailBytes = std::string_view(".tmp-XXXXXXXX").size();

// Creates a file without a name, if need be by removing a temporary one.
Descriptor create_unnamed(const std::shared_ptr<const Directory>& directory, const std::string& name, mode_t mode);

// Defers signals that end the process while several names change, or while a temporary name becomes that of the only
// copy of an old file.
class SignalsDeferred {
 public:
  SignalsDeferred();
  SignalsDeferred(const SignalsDeferred&) = delete;
  SignalsDeferred& operator=(const SignalsDeferred&) = delete;
  ~SignalsDeferred();
};

}  // namespace tzmark
