// Who may read and change a file: its owner, its mode and its access control list (ACL), so that a file that takes the
// place of another, or holds parts of it, is open to nobody else.
//
// Errors: TZE-ENV rules.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <vector>

namespace tzmark {

// What fstat says of an open file.
struct stat status_of(int fd);

class Attributes {
 public:
  static Attributes of(int fd);
  // Of a file that cannot be opened, so that its ACL stays unknown: the group gets no more than everybody has.
  static Attributes without_acl(const struct stat& status);

  // Gives them to a file that this process has created for itself alone: mode and ACL as far as mode_max has them,
  // owner and group as far as this process may. If the group cannot be kept, the new group gets no more than everybody
  // had, and everybody no more than the old group had; if the ACL cannot, only the owner gets anything. Returns whether
  // all was kept.
  bool give_to(int fd, mode_t mode_max = 0777) const;

 private:
  uid_t owner_ = 0;
  gid_t group_ = 0;
  mode_t mode_ = 0;             // with its set-ID bits
  std::vector<std::byte> acl_;  // as the kernel spells it; empty if there is none
};

// Whether a file has an ACL: then the group's bits of its mode say nothing about the group.
bool has_acl(int fd);

}  // namespace tzmark
