// How a process gives up rights for itself and all that it starts: no new privileges, no capabilities but those over
// files, and a Landlock ruleset.
//
// The runner does this between fork and exec, and the program that mounts a directory read-only does it after the
// mount, which a ruleset would forbid: hence a header without a library.
//
// Thread-safety: the functions change the calling thread, and are async-signal-safe.
#pragma once

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace tzmark::conformance {

// The descriptor of the ruleset, for a program that enters it itself.
inline constexpr int kRulesetDescriptor = 3;
// The option by which it is told to.
inline constexpr const char* kRestrictOption = "--restrict";

// landlock_restrict_self(2), which glibc does not have.
inline constexpr long kLandlockRestrictSelf = 446;  // on every architecture

inline bool keeps_capability(unsigned long capability) {
  return capability == CAP_CHOWN || capability == CAP_DAC_OVERRIDE || capability == CAP_DAC_READ_SEARCH ||
         capability == CAP_FOWNER || capability == CAP_FSETID || capability == CAP_IPC_LOCK;
}

// Gives up what a service or a container lets programs inherit; that takes no right.
inline bool drop_inheritable_capabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return false;
  for (__user_cap_data_struct& half : data) half.inheritable = 0;
  return ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0 && ::syscall(SYS_capset, &header, data) == 0;
}

// After the next exec, a process of root has these capabilities alone: what root may do to files, a ruleset still
// bounds. Other users have none then. Root without CAP_SETPCAP has no right to give its own up, which is for reports.
inline bool drop_capabilities() {
  if (!drop_inheritable_capabilities()) return false;
  for (unsigned long capability = 0;; ++capability) {
    const int has = ::prctl(PR_CAPBSET_READ, capability);
    if (has < 0) return true;
    if (has == 0 || keeps_capability(capability)) continue;
    if (::prctl(PR_CAPBSET_DROP, capability) != 0 && errno != EPERM) return false;
  }
}

// A negative ruleset is none. Returns false, with errno, if the kernel refuses.
inline bool enter_restriction(int ruleset) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !drop_capabilities()) return false;
  return ruleset < 0 || ::syscall(kLandlockRestrictSelf, ruleset, 0) == 0;
}

}  // namespace tzmark::conformance
