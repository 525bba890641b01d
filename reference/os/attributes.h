// Owner, mode and access control list (ACL) of files: a file that replaces another one, or holds parts of it, must not
// be open to more users.
//
// Errors: TZE-ENV rules.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tzmark/error.h"

namespace tzmark {

// Returns the code of a lookup that failed, from errno. What a device or a server that fails, or a lack of memory or of
// descriptors, prevents tells nothing about the entry, and is TZE-ENV-002 as a failed read.
ErrorCode code_of_failed_lookup();
// Returns if a lookup failed because the entry is missing or this user may not look it up, and throws TZE-ENV-002 for
// any other error.
void refuse_failed_lookup(const std::string& what);

// Returns what fstat reports.
struct stat status_of(int fd);

class Attributes {
 public:
  static Attributes of(int fd);
  // For a file that cannot be opened: its ACL is unknown, so the group gets no more than all other users have.
  static Attributes without_acl(const struct stat& status);

  // Sets them on a file that this process has created with access for itself only: mode and ACL limited to mode_max,
  // owner and group if this process is allowed to. If the group cannot be set, group and other users get only what both
  // had; if the ACL cannot be set, only the owner gets access. Returns whether everything was set.
  bool give_to(int fd, mode_t mode_max = 0777) const;

 private:
  uid_t owner_ = 0;
  gid_t group_ = 0;
  mode_t mode_ = 0;             // including set-ID bits
  std::vector<std::byte> acl_;  // in the kernel's format; empty if there is none
};

// Returns whether a file has an ACL; then the group bits of its mode are not the group's permissions.
bool has_acl(int fd);

}  // namespace tzmark
