// Who may read and change a file: its owner, its mode and its access control list (ACL), so that a file that takes the
// place of another is open to nobody else.
//
// Errors: TZE-ENV rules.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <vector>

namespace tzmark {

class Attributes {
 public:
  static Attributes of(int fd);
  // Of a file that cannot be opened, so that its ACL stays unknown: the group gets what everybody has.
  static Attributes without_acl(const struct stat& status);

  // Owner and group are kept as far as this process may. If the group cannot be kept, the new group gets what everybody
  // has.
  void give_to(int fd) const;

 private:
  uid_t owner_ = 0;
  gid_t group_ = 0;
  mode_t mode_ = 0;             // its nine permission bits
  std::vector<std::byte> acl_;  // as the kernel spells it; empty if there is none
};

}  // namespace tzmark
