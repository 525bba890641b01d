// A source whose files are replaced by what is made of it, such as in `tzmark convert FILE FILE`.
//
// For one thread at a time. Errors: TZE-ENV rules.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "os/directory.h"
#include "tzmark/io.h"

namespace tzmark {

class ReplacedSource {
 public:
  // outputs: the names in the directory that will be replaced. source: the files that are read, the one that names the
  // others first. Throws TZE-USE-001 if an output is one of the others and the first is not replaced, too: the source
  // would lose a part.
  ReplacedSource(std::shared_ptr<const Directory> directory, std::span<const std::string> outputs,
                 std::span<const FileVersion> source);

  // Locks the first file of the source, if it is replaced, as one that changes it in place does; the lock lasts as long
  // as the result. Anyone who may read the file can hold it, so this waits as long as `wait` says, and then throws
  // TZE-ENV-008; the finished files, which are all of the new ones, keep their temporary names. Throws TZE-ENV-005 if
  // the source has changed since it was opened: what was written to it meanwhile would be lost.
  [[nodiscard]] Descriptor lock_unchanged(const NamesWait& wait, std::span<AtomicFile* const> finished) const;
  // Finishes a single file and gives it its name, while the source is locked. Returns whether the name is durable.
  bool commit(AtomicFile& file, const NamesWait& wait) const;

 private:
  const std::shared_ptr<const Directory> directory_;
  std::optional<std::string> name_;  // of the first file of the source, if it is replaced
  FileVersion version_{};
};

}  // namespace tzmark
