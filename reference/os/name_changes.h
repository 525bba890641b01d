// A group of name changes in one directory: all are made or, after a failure, none.
//
// A replaced file keeps a temporary name (NAME.tmp-XXXXXXXX) until the last change is made, so that nothing is lost if
// the process is killed. Signals that the process handles are deferred while the object lives. For one thread at a
// time. Errors: TZE-ENV rules; TZE-AVL-001 where the file system can neither exchange two names nor link a file.
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
  // Undoes what was not committed.
  ~NameChanges();

  // Gives a file its name. REQUIRES: the file is finished and in this directory.
  void place(AtomicFile& file);
  // Gives a finished file, not placed yet, a second name that commit removes.
  void link(const AtomicFile& file, const std::string& name);
  // Makes the changes so far durable.
  void sync() { names_durable_ = directory_->sync() && names_durable_; }
  // Returns whether the file system made them durable whenever it was asked to.
  bool names_durable() const { return names_durable_; }
  // Makes commit remove an old file after all other changes.
  void remove_at_end(std::string name) { removed_at_end_.push_back(std::move(name)); }
  // Gives the last file its name by one rename; after that nothing is undone. Throws if an old file cannot be removed
  // then.
  void commit(AtomicFile& last);

  // Returns whether replacing what has the name of a file could be undone. REQUIRES: neither file is finished, and both
  // are in one directory.
  static bool can_replace(const AtomicFile& file, const AtomicFile& other);

  // Undoes all changes, the last one first. Returns what could not be undone, for an error message.
  std::string take_back();

 private:
  struct Change {
    enum class Kind { kNone, kNamed, kExchanged, kReplaced, kLinked };
    Kind kind;
    std::string temporary;  // of the new file before kNamed and kExchanged, of the old one after kExchanged, kReplaced
    std::string name;
  };

  // Records a change before it is made, so that nothing can fail in between.
  Change& next_change(const std::string& temporary, const std::string& name);
  void replace(AtomicFile& file, Change& change);
  void replace_by_link(AtomicFile& file, Change& change);
  bool is_taken_back(const Change& change);

  const SignalsDeferred deferred_;
  const std::shared_ptr<const Directory> directory_;
  bool names_durable_ = true;
  std::vector<Change> changes_;
  std::vector<std::string> removed_at_end_;
};

// Calls action with a NameChanges and undoes its changes if it throws. The error then names what could not be undone.
// Returns whether the changes are durable.
template <typename Action>
bool change_names(std::shared_ptr<const Directory> directory, Action&& action) {
  NameChanges changes(std::move(directory));
  try {
    action(changes);
    return changes.names_durable();
  } catch (const Error& error) {
    const std::string remains = changes.take_back();
    if (remains.empty()) throw;
    throw Error(error.code(), error.message() + remains, error.offset());
  }
}

// Returns whether the file system supports hard links.
bool can_link(const AtomicFile& file);

}  // namespace tzmark
