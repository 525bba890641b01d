// Calls that read and set owner, mode and ACL of an open file.
#include "os/attributes.h"

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "io/paths.h"

namespace tzmark {
namespace {

constexpr const char* kAclName = "system.posix_acl_access";
constexpr std::size_t kAclBytesMax = 64 << 10;  // the kernel's limit for any extended attribute
constexpr mode_t kPermissions = 0777, kModeBits = 07777;

std::vector<std::byte> acl_of(int fd) {
  std::vector<std::byte> acl(kAclBytesMax);
  const ssize_t bytes = ::fgetxattr(fd, kAclName, acl.data(), acl.size());
  if (bytes < 0 && errno != ENODATA && errno != EOPNOTSUPP) {
    throw_errno(ErrorCode::kOpenFailed, "cannot read the access control list");
  }
  acl.resize(bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
  return acl;
}

// A rootless container reports EINVAL for an owner that its user namespace does not map.
bool change_owner(int fd, uid_t owner, gid_t group) {
  if (::fchown(fd, owner, group) == 0) return true;
  if (errno != EPERM && errno != EINVAL) throw_errno(ErrorCode::kWriteFailed, "fchown");
  return false;
}

// Another group must not get the permissions of the file's group, nor that group those of all other users.
mode_t for_another_group(mode_t mode) { return mode & (07700U | (mode & 07U) << 3U | (mode & 070U) >> 3U); }

// Limits an ACL to a mode, and treats its entries as for_another_group treats modes.
std::vector<std::byte> narrowed(std::vector<std::byte> acl, mode_t mode_max, bool group_is_kept) {
  if (acl.size() < sizeof(posix_acl_xattr_header)) return acl;
  const std::span entries(reinterpret_cast<posix_acl_xattr_entry*>(acl.data() + sizeof(posix_acl_xattr_header)),
                          (acl.size() - sizeof(posix_acl_xattr_header)) / sizeof(posix_acl_xattr_entry));
  unsigned common = 07;
  for (posix_acl_xattr_entry& entry : entries) {
    const unsigned shift = entry.e_tag == ACL_USER_OBJ ? 6 : entry.e_tag == ACL_OTHER ? 0 : 3;
    entry.e_perm = static_cast<__le16>(entry.e_perm & (mode_max >> shift));
    const bool limits = entry.e_tag == ACL_GROUP_OBJ || entry.e_tag == ACL_MASK || entry.e_tag == ACL_OTHER;
    if (limits) common &= entry.e_perm;
  }
  for (posix_acl_xattr_entry& entry : entries) {
    const bool is_concerned = entry.e_tag == ACL_GROUP_OBJ || entry.e_tag == ACL_OTHER;
    if (is_concerned && !group_is_kept) entry.e_perm = static_cast<__le16>(entry.e_perm & common);
  }
  return acl;
}

// A file system that gives all files one mode refuses this; then the file may keep a mode no wider than mode_most.
void set_mode(int fd, mode_t mode, mode_t mode_most) {
  const mode_t now = status_of(fd).st_mode & kModeBits;
  if (now == mode || ::fchmod(fd, mode) == 0) return;
  const bool is_refused = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS;
  if (!is_refused || (now & ~mode_most) != 0) throw_errno(ErrorCode::kWriteFailed, "fchmod");
}

// Sets the ACL, or the mode if there is none. Returns false if the ACL is refused.
bool set_access(int fd, const std::vector<std::byte>& acl, mode_t mode, mode_t mode_most) {
  if (!acl.empty() && ::fsetxattr(fd, kAclName, acl.data(), acl.size(), 0) == 0) return true;
  if (!acl.empty()) {
    if (errno != EOPNOTSUPP && errno != EPERM && errno != EINVAL) {
      throw_errno(ErrorCode::kWriteFailed, "cannot set the access control list");
    }
    // The group bits were the mask of all entries, not the group's permissions.
    mode &= 0700;
    mode_most &= 0700;
  }
  // The file may have inherited an ACL from its directory.
  if (has_acl(fd) && ::fremovexattr(fd, kAclName) != 0) {
    throw_errno(ErrorCode::kWriteFailed, "cannot remove the inherited access control list");
  }
  set_mode(fd, mode, mode_most);
  return acl.empty();
}

}  // namespace

ErrorCode code_of_failed_lookup() {
  switch (errno) {
    case EIO:
    case ESTALE:
    case ETIMEDOUT:
    case EREMOTEIO:
    case ENOMEM:
    case ENFILE:
    case EMFILE:
      return ErrorCode::kReadFailed;
    default:
      return ErrorCode::kOpenFailed;
  }
}

void refuse_failed_lookup(const std::string& what) {
  switch (errno) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP:
    case EACCES:
    case EPERM:
      return;
    default:
      // EUCLEAN of a damaged file system, ENOTCONN of a dead server: whatever it is, it tells nothing about the entry.
      throw_errno(ErrorCode::kReadFailed, what);
  }
}

struct stat status_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno(code_of_failed_lookup(), "fstat");
  return status;
}

bool has_acl(int fd) { return !acl_of(fd).empty(); }

Attributes Attributes::of(int fd) {
  const struct stat status = status_of(fd);
  Attributes attributes = without_acl(status);
  attributes.mode_ = status.st_mode & kModeBits;
  attributes.acl_ = acl_of(fd);
  return attributes;
}

Attributes Attributes::without_acl(const struct stat& status) {
  Attributes attributes;
  attributes.owner_ = status.st_uid;
  attributes.group_ = status.st_gid;
  attributes.mode_ = for_another_group(status.st_mode & kModeBits);
  return attributes;
}

bool Attributes::give_to(int fd, mode_t mode_max) const {
  constexpr auto kAsItIs = static_cast<uid_t>(-1);
  // The owner comes last: a process may be allowed to give a file away, but not to change another user's file.
  const bool group_is_kept = status_of(fd).st_gid == group_ || change_owner(fd, kAsItIs, group_);
  const mode_t mode_most = group_is_kept ? mode_ : for_another_group(mode_);
  const mode_t mode = mode_most & mode_max;
  const bool access_is_kept = set_access(fd, narrowed(acl_, mode_max, group_is_kept), mode & kPermissions, mode_most);
  const bool owner_is_kept = status_of(fd).st_uid == owner_ || change_owner(fd, owner_, kAsItIs);
  const bool all_is_kept = group_is_kept && access_is_kept && owner_is_kept;
  // Changing the owner clears set-ID bits, and a program with other content must not run as another user.
  if (all_is_kept) set_mode(fd, (status_of(fd).st_mode & kPermissions) | (mode & ~kPermissions), mode_most);
  return all_is_kept;
}

}  // namespace tzmark
