// What the kernel keeps an adapter from, itself and all that it starts: writing to files outside its own directories,
// signals and traces of other processes, sockets, and what would outlive it in the kernel.
//
// Landlock (Linux 5.13 and later) bounds writes, from 6.7 on TCP, and from 6.12 on signals; a seccomp filter refuses
// system calls; root gives up its capabilities but those over files. A kernel may lack any of these: what is missing is
// for reports, and a run goes on without it. docs/containment.md lists all that is contained, and what is not.
//
// Thread-safety: one object belongs to one thread; the functions are pure functions of the system.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/descriptor.h"

namespace tzmark::conformance {

// What the user of the suite lets an adapter do besides reading files.
struct Permissions {
  std::vector<std::filesystem::path> writable = {};  // files, and directories with all below
  bool network = false;
};

// How one program is contained.
struct Containment {
  Permissions permissions = {};
  // Of the suite's own server, if the program may connect to it.
  std::optional<std::uint16_t> server_port = std::nullopt;
  // Whether the program is one of the suite that enters the ruleset itself (restrict_self.h).
  bool enters_ruleset_itself = false;
};

// At most this many per process, however many the suite may open; see also ProcessLimits.
inline constexpr std::uint64_t kProcessFilesMax = 4096;

// What a program is contained by, made before the fork. Owns the ruleset.
class Restriction {
 public:
  // own: directories of the program, below which it may write as well. Throws EnvironmentError if one of them, or one
  // of the permissions, cannot be opened, or the kernel refuses the ruleset.
  Restriction(const Containment& containment, const std::vector<std::filesystem::path>& own);

  // Contains the calling process and what it starts. Async-signal-safe. Returns false, with errno, if the kernel
  // refuses.
  bool enter() const;

  // To stay open at kRulesetDescriptor; negative unless the program enters it itself.
  int passed_ruleset() const { return enters_ruleset_itself_ ? ruleset_.get() : -1; }

 private:
  Descriptor ruleset_;  // not open on a kernel without Landlock
  bool enters_ruleset_itself_;
  std::vector<sock_filter> filter_;  // empty on a kernel or processor without it
};

// The variables that a contained program gets: how to find programs, libraries and caches, languages, and settings of
// runtimes. Others may hold credentials, or lead to services of the user.
bool passes_variable(std::string_view name);

// What an adapter is not kept from, one line each: what this kernel lacks, and what the user permits.
std::vector<std::string> containment_gaps(const Permissions& permissions);

}  // namespace tzmark::conformance
