// Calls that read and set owner, mode and ACL of an open file.
#include "io/attributes.h"

#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "io/paths.h"

namespace tzmark {
namespace {

constexpr const char* kAclName = "system.posix_acl_access";
constexpr std::size_t kAclBytesMax = 64 << 10;  // the kernel's limit for any extended attribute
constexpr mode_t kPermissions = 0777;

struct stat status_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno(ErrorCode::kOpenFailed, "fstat");
  return status;
}

mode_t group_as_others(mode_t mode) { return (mode & 0707) | ((mode & 07) << 3); }

// Whether the file has the owner and the group now, or the group at least. A rootless container answers EINVAL for an
// owner that it has no number for.
bool keeps_group(int fd, uid_t owner, gid_t group) {
  const struct stat now = status_of(fd);
  if (now.st_uid == owner && now.st_gid == group) return true;
  if (::fchown(fd, owner, group) == 0) return true;
  if (errno != EPERM && errno != EINVAL) throw_errno(ErrorCode::kWriteFailed, "fchown");
  if (now.st_gid == group || ::fchown(fd, static_cast<uid_t>(-1), group) == 0) return true;
  if (errno != EPERM && errno != EINVAL) throw_errno(ErrorCode::kWriteFailed, "fchown");
  return false;
}

// Returns whether the file has this ACL now. Without one it may have inherited another from its directory, which goes.
bool set_acl(int fd, const std::vector<std::byte>& acl) {
  if (!acl.empty() && ::fsetxattr(fd, kAclName, acl.data(), acl.size(), 0) == 0) return true;
  if (!acl.empty() && errno != EOPNOTSUPP && errno != EPERM && errno != EINVAL) {
    throw_errno(ErrorCode::kWriteFailed, "cannot set the access control list");
  }
  if (::fremovexattr(fd, kAclName) == 0 || errno == ENODATA || errno == EOPNOTSUPP) return acl.empty();
  throw_errno(ErrorCode::kWriteFailed, "cannot remove the inherited access control list");
}

}  // namespace

Attributes Attributes::of(int fd) {
  const struct stat status = status_of(fd);
  Attributes attributes;
  attributes.owner_ = status.st_uid;
  attributes.group_ = status.st_gid;
  attributes.mode_ = status.st_mode & kPermissions;
  attributes.acl_.resize(kAclBytesMax);
  const ssize_t bytes = ::fgetxattr(fd, kAclName, attributes.acl_.data(), attributes.acl_.size());
  if (bytes < 0 && errno != ENODATA && errno != EOPNOTSUPP) {
    throw_errno(ErrorCode::kOpenFailed, "cannot read the access control list");
  }
  attributes.acl_.resize(bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
  return attributes;
}

Attributes Attributes::without_acl(const struct stat& status) {
  Attributes attributes;
  attributes.owner_ = status.st_uid;
  attributes.group_ = status.st_gid;
  attributes.mode_ = group_as_others(status.st_mode & kPermissions);
  return attributes;
}

void Attributes::give_to(int fd) const {
  mode_t mode = mode_;
  // The owner comes first: after it is given away only root may change the rest, and who is not root cannot give it.
  const bool group_is_kept = keeps_group(fd, owner_, group_);
  const bool acl_is_kept = set_acl(fd, group_is_kept ? acl_ : std::vector<std::byte>());
  // With an ACL, the group's bits are the limit of all its entries, and say nothing about the group.
  if (!group_is_kept || (!acl_.empty() && !acl_is_kept)) mode = group_as_others(mode);
  if ((status_of(fd).st_mode & kPermissions) == mode) return;
  if (::fchmod(fd, mode) != 0) throw_errno(ErrorCode::kWriteFailed, "fchmod");
}

}  // namespace tzmark
