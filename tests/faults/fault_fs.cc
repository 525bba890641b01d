// A FUSE file system that passes every call on to a directory, except those that the environment says to refuse, so
// that tests see the mounts that people really have: network file systems, object stores, containers.
//
// usage: FS_ROOT=DIR [FS_...=...] fault_fs MOUNTPOINT [FUSE OPTION...]; end it with fusermount3 -u MOUNTPOINT.
//   FS_ROOT         the directory that the mount shows, absolute
//   FS_DIRECT_IO    set: files are opened with direct_io, which keeps nothing in the page cache and refuses shared maps
//   FS_KEEP_CACHE   set: pages stay in the page cache after a file is closed; otherwise each open drops them
//   FS_NOLINK       set: no hard links (EPERM)
//   FS_NOCHMOD      set: no change of mode or owner (EPERM)
//   FS_NOREN        an errno: no file and no directory can be renamed
//   FS_NORENDIR     an errno: no directory can be renamed
//   FS_DIRFSYNC     an errno: directories cannot be synchronized
// It reports zeros for its size, as mounts without statfs do, and refuses the flags of renameat2 (EINVAL).
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <fcntl.h>
#include <fuse.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::string root;  // NOLINT: set once, before the first call

std::string below(const char* path) { return root + path; }

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

// The errno that a variable names, negated as FUSE wants it, or 0.
int refusal(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? 0 : -std::atoi(value);
}

int result(int returned) { return returned == -1 ? -errno : 0; }

int descriptor(const fuse_file_info* file) { return static_cast<int>(file->fh); }

int get_attributes(const char* path, struct stat* out, fuse_file_info* file) {
  return result(file != nullptr ? ::fstat(descriptor(file), out) : ::lstat(below(path).c_str(), out));
}

int read_directory(const char* path, void* buffer, fuse_fill_dir_t fill, off_t /*offset*/, fuse_file_info* /*file*/,
                   fuse_readdir_flags /*flags*/) {
  DIR* directory = ::opendir(below(path).c_str());
  if (directory == nullptr) return -errno;
  while (const dirent* entry = ::readdir(directory)) fill(buffer, entry->d_name, nullptr, 0, fuse_fill_dir_flags{});
  ::closedir(directory);
  return 0;
}

int read_link(const char* path, char* out, size_t bytes) {
  const ssize_t length = ::readlink(below(path).c_str(), out, bytes - 1);
  if (length == -1) return -errno;
  out[length] = '\0';
  return 0;
}

int make_directory(const char* path, mode_t mode) { return result(::mkdir(below(path).c_str(), mode)); }
int make_link(const char* target, const char* path) { return result(::symlink(target, below(path).c_str())); }
int unlink_file(const char* path) { return result(::unlink(below(path).c_str())); }
int remove_directory(const char* path) { return result(::rmdir(below(path).c_str())); }

int rename_entry(const char* from, const char* to, unsigned flags) {
  if (flags != 0) return -EINVAL;
  if (const int refused = refusal("FS_NOREN"); refused != 0) return refused;
  struct stat status {};
  const int refused = refusal("FS_NORENDIR");
  if (refused != 0 && ::lstat(below(from).c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return refused;
  return result(::rename(below(from).c_str(), below(to).c_str()));
}

int link_file(const char* from, const char* to) {
  if (is_set("FS_NOLINK")) return -EPERM;
  return result(::link(below(from).c_str(), below(to).c_str()));
}

int change_mode(const char* path, mode_t mode, fuse_file_info* /*file*/) {
  if (is_set("FS_NOCHMOD")) return -EPERM;
  return result(::chmod(below(path).c_str(), mode));
}

int change_owner(const char* path, uid_t user, gid_t group, fuse_file_info* /*file*/) {
  if (is_set("FS_NOCHMOD")) return -EPERM;
  return result(::lchown(below(path).c_str(), user, group));
}

int truncate_file(const char* path, off_t bytes, fuse_file_info* file) {
  return result(file != nullptr ? ::ftruncate(descriptor(file), bytes) : ::truncate(below(path).c_str(), bytes));
}

int change_times(const char* path, const timespec times[2], fuse_file_info* /*file*/) {
  return result(::utimensat(AT_FDCWD, below(path).c_str(), times, AT_SYMLINK_NOFOLLOW));
}

int opened(int file_descriptor, fuse_file_info* file) {
  if (file_descriptor < 0) return -errno;
  file->fh = static_cast<uint64_t>(file_descriptor);
  file->direct_io = is_set("FS_DIRECT_IO") ? 1 : 0;
  file->keep_cache = is_set("FS_KEEP_CACHE") ? 1 : 0;
  return 0;
}

// The kernel has already met O_DIRECT's alignment for the caller; the directory below need not.
int open_file(const char* path, fuse_file_info* file) {
  return opened(::open(below(path).c_str(), file->flags & ~O_DIRECT), file);
}

int create_file(const char* path, mode_t mode, fuse_file_info* file) {
  return opened(::open(below(path).c_str(), (file->flags & ~O_DIRECT) | O_CREAT, mode), file);
}

int read_file(const char* /*path*/, char* out, size_t bytes, off_t offset, fuse_file_info* file) {
  const ssize_t count = ::pread(descriptor(file), out, bytes, offset);
  return count < 0 ? -errno : static_cast<int>(count);
}

int write_file(const char* /*path*/, const char* data, size_t bytes, off_t offset, fuse_file_info* file) {
  const ssize_t count = ::pwrite(descriptor(file), data, bytes, offset);
  return count < 0 ? -errno : static_cast<int>(count);
}

int release_file(const char* /*path*/, fuse_file_info* file) {
  ::close(descriptor(file));
  return 0;
}

int sync_file(const char* /*path*/, int /*only_data*/, fuse_file_info* file) {
  return result(::fsync(descriptor(file)));
}

int sync_directory(const char* /*path*/, int /*only_data*/, fuse_file_info* /*file*/) { return refusal("FS_DIRFSYNC"); }

int report_sizes(const char* /*path*/, struct statvfs* out) {
  *out = {};
  out->f_bsize = 512;
  out->f_namemax = 255;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* given = std::getenv("FS_ROOT");
  if (given == nullptr || given[0] != '/') {
    std::fputs("fault_fs: FS_ROOT must be an absolute path\n", stderr);
    return 2;
  }
  root = given;
  fuse_operations operations{};
  operations.getattr = get_attributes;
  operations.readlink = read_link;
  operations.mkdir = make_directory;
  operations.unlink = unlink_file;
  operations.rmdir = remove_directory;
  operations.symlink = make_link;
  operations.rename = rename_entry;
  operations.link = link_file;
  operations.chmod = change_mode;
  operations.chown = change_owner;
  operations.truncate = truncate_file;
  operations.open = open_file;
  operations.read = read_file;
  operations.write = write_file;
  operations.statfs = report_sizes;
  operations.release = release_file;
  operations.fsync = sync_file;
  operations.readdir = read_directory;
  operations.fsyncdir = sync_directory;
  operations.create = create_file;
  operations.utimens = change_times;
  return fuse_main(argc, argv, &operations, nullptr);
}
