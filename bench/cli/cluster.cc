// Runs tzmark bench cluster, which is a program of its own: see bench/cluster.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "cli/bench_commands.h"
#include "program/installation.h"
#include "tzmark/error.h"

namespace tzmark::bench {

void become_cluster(char* const* arguments) {
  const std::string path = sibling_directory() / "tzmark-bench-cluster";
  ::execv(path.c_str(), arguments);
  const int error = errno;
  throw Error(ErrorCode::kUnavailable, fmt::format("{}: {}; it is built where there is MPI (libopenmpi-dev)", path,
                                                   std::generic_category().message(error)));
}

}  // namespace tzmark::bench
