// Names in one directory that change together: all of them or, after a failure, none.
//
// A file that is replaced keeps a temporary name (NAME.tmp-XXXXXXXX) until the last change has been made, so that
// nothing is lost if the process is killed meanwhile. Signals that the process can handle wait until the object is
// gone. For one thread at a time. Errors: TZE-ENV rules; TZE-AVL-001 where the file system can neither exchange two
// names nor link a file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "os/directory.h"
#include "os/temporary_name.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {

class NameChanges {
 public:
  explicit NameChanges(std::shared_ptr<const Directory> directory) : directory_(std::move(directory)) {}
  NameChanges(const NameChanges&) = delete;
  NameChanges& operator=(const NameChanges&) = delete;
  // Takes back what was not committed.
  ~NameChanges();

  // Gives a file its name. REQUIRES: the file is finished, and in this directory.
  void place(AtomicFile& file);
  // Gives a file that is finished and not placed yet a second name, which goes at the end.
  void link(const AtomicFile& file, const std::string& name);
  // Makes the names durable as they are now.
  void sync() { directory_->sync(); }
  // Removes a file of before, after everything else is done.
  void remove_at_end(std::string name) { removed_at_end_.push_back(std::move(name)); }
  // Gives the last file its name, by one rename: from then on all changes stay. Throws if something of before cannot be
  // removed after that.
  void commit(AtomicFile& last);

  // Whether a file can replace what has its name so that this can be taken back. REQUIRES: neither file is finished,
  // and both are of the same directory.
  static bool can_replace(const AtomicFile& file, const AtomicFile& other);

  // Takes everything back, the last change first. Returns what could not be, as a sentence for an error.
  std::string take_back();

 private:
  struct Change {
    enum class Kind { kNone, kNamed, kExchanged, kReplaced, kLinked };
    Kind kind;
    std::string
        temporary;  // the new file's before kNamed and kExchanged; the old file's after kExchanged and kReplaced
    std::string name;
  };

  // The record of a change is made before it, so that nothing can fail between the change and its record.
  Change& next_change(const std::string& temporary, const std::string& name);
  void replace(AtomicFile& file, Change& change);
  void replace_by_link(AtomicFile& file, Change& change);
  bool is_taken_back(const Change& change);

  const SignalsDeferred deferred_;
  const std::shared_ptr<const Directory> directory_;
  std::vector<Change> changes_;
  std::vector<std::string> removed_at_end_;
};

// Excludes other processes that change several names in the directory, and other objects of this one, while it lives:
// a lock (flock) on the directory. Waits for it for some seconds, then throws TZE-ENV-008. File systems that cannot
// lock directories (NFS) exclude nobody.
class NamesLock {
 public:
  explicit NamesLock(std::shared_ptr<const Directory> directory);
  NamesLock(const NamesLock&) = delete;
  NamesLock& operator=(const NamesLock&) = delete;
  ~NamesLock();

 private:
  const std::shared_ptr<const Directory> directory_;
};

// Calls action with a NameChanges, and takes the changes back if it throws. The error then names the files that could
// not be put back.
template <typename Action>
void change_names(std::shared_ptr<const Directory> directory, Action&& action) {
  NameChanges changes(std::move(directory));
  try {
    action(changes);
  } catch (const Error& error) {
    const std::string remains = changes.take_back();
    if (remains.empty()) throw;
    throw Error(error.code(), error.message() + remains, error.offset());
  }
}

// Whether the file system gives files second names.
bool can_link(const AtomicFile& file);

// Gives a file a name that nothing has: otherwise it fails with EEXIST. Returns whether it did, with errno set if not;
// EOPNOTSUPP where the file system cannot promise that.
bool rename_to_free_name(const Directory& directory, const std::string& from, const std::string& to);

}  // namespace tzmark
