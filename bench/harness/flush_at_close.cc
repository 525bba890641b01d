// Emulates a slow flush of written files at the fsync, or with TZMARK_FLUSH_AT_CLOSE at the close already, as NFS does.
// For LD_PRELOAD.
//
// A file of at least kLeastBytes is flushed once: an extended attribute says that it was, to all processes.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

constexpr std::chrono::milliseconds kFlushTime(300);
constexpr off_t kLeastBytes = 1 << 20;
constexpr const char* kFlushed = "user.tzmark.flushed";

using Call = int(int);

Call* next(const char* name) { return reinterpret_cast<Call*>(::dlsym(RTLD_NEXT, name)); }

void flush(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < kLeastBytes) return;
  if ((::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY || ::fgetxattr(fd, kFlushed, nullptr, 0) >= 0) return;
  ::fsetxattr(fd, kFlushed, "", 0, 0);
  std::this_thread::sleep_for(kFlushTime);
}

}  // namespace

extern "C" int fsync(int fd) {
  flush(fd);
  return next("fsync")(fd);
}

extern "C" int close(int fd) {
  if (std::getenv("TZMARK_FLUSH_AT_CLOSE") != nullptr) flush(fd);
  return next("close")(fd);
}
