// A program and whatever it starts, held together by a process between this one and the program: the keeper.
//
// The keeper is the parent of the program and the reaper of all orphans below it (PR_SET_CHILD_SUBREAPER), so nothing
// that the program starts leaves the tree below the keeper, whatever groups and sessions it makes, and concurrent
// programs stay apart. The keeper waits for each of these processes and ends when none is left. It reports how the
// program ended through a pipe; the report of a killed keeper is ignored. The keeper leads a session without a
// terminal, and the program a process group in it, with no descriptors but its streams. A program that is contained
// (restrict.h) cannot send signals to keeper and suite where the kernel prevents it. A resource limit that has no
// effect marks the processes that a killed keeper leaves, in whatever environment they run. Other children of this
// process are left alone.
//
// Thread-safety: one object belongs to one thread at a time; several may exist at once. Keeper, program and all that is
// below die with the thread that started them, however it ends.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/descriptor.h"
#include "runner/restrict.h"

namespace tzmark::conformance {

class Keeper {
 public:
  // Descriptors that become the program's stdin, stdout and stderr.
  struct Streams {
    int in = -1;
    int out = -1;
    int err = -1;
  };

  struct Ended {
    std::optional<int> status;            // of the program, as wait tells it; nothing if the keeper was killed
    std::uint64_t rusage_peak_bytes = 0;  // of the largest process, up to its exec that of this one included
  };

  // Returns when the program has been executed, with temporary_directory as its TMPDIR. With a restriction, the program
  // and all that it starts are contained, and it gets the variables of passes_variable() alone. Throws EnvironmentError
  // if the program cannot be executed. REQUIRES: argv is not empty, and no other keeper has this directory.
  Keeper(const std::vector<std::string>& argv, const Streams& streams, const std::filesystem::path& temporary_directory,
         const Restriction* restriction = nullptr);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // The program and all that it started are below this process, which is not one of them.
  pid_t pid() const { return pid_; }

  // Readable once the program has ended.
  int notice_fd() const { return notices_.get(); }

  // Kills and reaps whatever is left. Throws EnvironmentError, which names the processes, if some live on after seconds
  // of trying.
  // REQUIRES: not ended before.
  Ended end();

  bool ended() const { return ended_; }

 private:
  bool read_notices(Ended& result);
  void give_up();
  bool reap(int& status);

  rlim_t mark_ = 0;  // a limit of all that it starts
  pid_t pid_ = -1;
  bool all_gone_ = false;  // the keeper said so
  bool ended_ = false;
  Descriptor notices_;
};

}  // namespace tzmark::conformance
