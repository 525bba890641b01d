// The registry of I/O paths. Each row is defined in the file of its path.
#include <array>
#include <span>

#include "io/paths.h"

namespace tzmark {

PathOfDescriptor pwrite_path(), buffered_path(), direct_path(), mmap_path(), uring_path(), uring_direct_path(),
    uring_sqpoll_path(), pwrite_dontcache_path(), gpudirect_path();

std::span<const PathOfDescriptor> paths_of_descriptors() {
  static const std::array paths = {pwrite_path(),   buffered_path(),     direct_path(),       mmap_path(),
                                   uring_path(),    uring_direct_path(), uring_sqpoll_path(), pwrite_dontcache_path(),
                                   gpudirect_path()};
  return paths;
}

}  // namespace tzmark
