// Files, and the I/O paths that read and write them.
//
// A File is one open file over one I/O path. The public calls transfer all bytes or throw: they handle short transfers
// and interrupted calls for every path. A path implements the protected calls, which may transfer fewer bytes.
// A TransferQueue keeps several transfers of one thread in flight, if the path supports it.
//
// A file may also be an object of an HTTP or S3 server, which is read by its URL: see docs/remote.md. Its paths need
// libcurl, which is loaded by the first use and stays loaded. Do not use such a file in a child after a fork.
//
// Thread-safety: read_at and write_at may run concurrently at any offsets.
// Errors: TZE-ENV rules with the file offset; TZE-AVL-001 for a path that is not available on this machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tzmark/buffer.h"

namespace tzmark {

// One transfer of bytes between a file and memory. Object and memory must stay in place until it completes.
struct Transfer {
  enum class Kind : std::uint8_t { kRead, kWrite };

  Kind kind = Kind::kRead;
  std::uint64_t offset = 0;
  MutableBuffer memory;      // a write does not modify it
  void* owner = nullptr;     // for the caller; queues ignore it
  std::exception_ptr error;  // set on completion: what read_at or write_at would have thrown
  // Bytes after the memory that a read may overwrite: a path that transfers whole pages then reads the end of a file in
  // the same call.
  std::size_t spare_bytes = 0;
};

// The transfers that one thread has in flight on one file. That thread creates, uses and destroys the queue.
// The destructor blocks until all transfers complete.
class TransferQueue {
 public:
  virtual ~TransferQueue() = default;
  TransferQueue(const TransferQueue&) = delete;
  TransferQueue& operator=(const TransferQueue&) = delete;

  virtual unsigned depth() const = 0;
  virtual unsigned in_flight() const = 0;
  // Starts a transfer, whose failure sets its error; a synchronous path performs it here. REQUIRES: in_flight() <
  // depth().
  virtual void start(Transfer& transfer) = 0;
  // Blocks until a transfer completes or fails, and returns it. REQUIRES: in_flight() > 0.
  virtual Transfer& wait() = 0;
  // Returns a transfer that has completed or failed, or null if there is none. Never blocks.
  virtual Transfer* poll() = 0;
  // Registers memory that many transfers will use, which speeds up some paths. Called at most once, before the first
  // start. If the system refuses, transfers work without registration.
  virtual void register_memory(std::span<const MutableBuffer>) {}

 protected:
  TransferQueue() = default;
};

// Identity and state of a file: differs for another file, and for the same file after a write.
struct FileVersion {
  std::uint64_t device, inode, bytes;
  std::int64_t modified_ns;

  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

// Throws TZE-ENV-001 if fstat fails.
FileVersion file_version(int descriptor);

// What reading a remote file took so far, over all threads.
struct RequestCounts {
  std::uint64_t requests = 0;        // sent, including retries and those after a redirect
  std::uint64_t retries = 0;         // requests that repeat or continue a failed one
  std::uint64_t received_bytes = 0;  // of bodies
  bool is_copied = false;  // the server cannot send parts of a file, so all of it was copied to a temporary file
};

class File {
 public:
  virtual ~File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // The name of the I/O path in use, as in the registry ("pwrite").
  virtual std::string_view io_path() const = 0;
  virtual std::uint64_t size() const = 0;
  // The version when open_file opened the file; none for other files.
  const std::optional<FileVersion>& version() const { return version_; }
  void set_version(const FileVersion& version) { version_ = version; }

  // Fills out from offset on. Throws TZE-ENV-005 if the file is shorter.
  void read_at(std::uint64_t offset, MutableBuffer out);
  void write_at(std::uint64_t offset, ConstBuffer in);
  // Blocks until the content is durable: until it would survive a power failure.
  void sync();
  // Announces sync(), before the first write: paths that start writeback (PathTraits) then submit large writes to the
  // device at once, so that it does not idle until the sync; a write may take as long as the device does. Other paths
  // ignore it.
  virtual void expect_sync() {}

  // depth: the maximal number of transfers in flight; always 1 on a synchronous path.
  virtual std::unique_ptr<TransferQueue> make_queue(unsigned depth);
  // Whether transfers proceed in the background, so that one thread can keep many in flight.
  virtual bool is_asynchronous() const { return false; }
  // Whether the file serializes concurrent writes.
  virtual bool writes_take_turns() const { return false; }
  // The recommended number of transfers in flight, summed over all threads; 0 = one per thread.
  virtual unsigned queue_depth_default() const { return 0; }
  // The recommended size of a transfer; 0 = as large as the memory for it.
  virtual std::size_t transfer_bytes_default() const { return 0; }
  // Required alignment of transfers, in bytes: of file offset and length.
  virtual std::size_t transfer_align_bytes() const { return 1; }
  // Required alignment of memory, in bytes: without a bounce buffer, file offset and memory address must be congruent
  // modulo this. Mostly 4 on NVMe. Source: stx_dio_mem_align in statx(2).
  virtual std::size_t memory_align_bytes() const { return 1; }
  // Whether the path transfers directly between storage and GPU memory; other paths refuse such buffers.
  virtual bool moves_device_memory() const { return false; }
  // Whether each call is a request to another machine, so that few large ones are better than many small ones.
  virtual bool is_remote() const { return false; }
  // Within how many bytes of the file reads should stay at a time; 0 = the order of reads does not matter.
  virtual std::uint64_t window_bytes() const { return 0; }
  // None for files of this machine.
  virtual std::optional<RequestCounts> request_counts() const { return std::nullopt; }
  // Allocates space for a file of that size if the path then writes faster, and may set the size. Throws TZE-ENV rules
  // if there is no space.
  virtual void reserve(std::uint64_t bytes);

 protected:
  File() = default;
  // Transfer at least one byte and return how many; read_some returns 0 at the end of the file.
  virtual std::size_t read_some(std::uint64_t offset, MutableBuffer out) = 0;
  virtual std::size_t write_some(std::uint64_t offset, ConstBuffer in) = 0;
  virtual void sync_all() = 0;

 private:
  std::optional<FileVersion> version_;
};

// Minimum size of a write that starts writeback after expect_sync. Smaller ones would fragment the file system's
// allocations and the device's requests.
inline constexpr std::size_t kWritebackBytesMin = 256 << 10;

enum class OpenMode {
  kRead,
  kCreate,  // must not exist; readable and writable
  kModify,  // must exist; readable and writable
};

// How an I/O path differs from plain pread and pwrite through the page cache. Code that treats paths differently asks
// for these, never for names.
struct PathTraits {
  bool bypasses_cache = false;       // transfers between device and memory without the page cache
  bool drops_pages = false;          // uses the page cache, but drops pages once written or read (RWF_DONTCACHE)
  bool starts_writeback = false;     // after File::expect_sync, submits large writes to the device at once
  bool is_asynchronous = false;      // as File::is_asynchronous
  bool polls_submissions = false;    // a kernel thread polls for submissions and keeps a core busy (SQPOLL)
  bool maps_file = false;            // copies from and to a mapping
  bool uses_stdio = false;           // transfers with fread and fwrite
  bool moves_device_memory = false;  // as File::moves_device_memory: for GPU memory, not for host memory
  bool is_fork_safe = true;          // after a fork, parent and child can both use an open file
  bool needs_file_name = false;      // a file must have a name when it is opened
  bool is_remote = false;            // reads URLs, and no files of this machine; writes nothing
};

// One row of the registry of I/O paths.
struct IoPath {
  std::string_view name;
  std::string_view summary;
  std::string_view variant_of;  // the path that this is a variant of; empty if it is not a variant
  PathTraits traits;
  // The reason why this machine cannot use the path; empty if it can.
  std::function<std::string()> why_unavailable;
  std::function<std::unique_ptr<File>(const std::string& file_name, OpenMode)> open;
};

std::span<const IoPath> io_paths();
// Returns the traits of a path of the registry, or the defaults for other files ("memory").
PathTraits path_traits(std::string_view io_path);

// Returns whether a file name is a URL: it begins with http://, https:// or s3://, in upper or lower case.
bool is_url(std::string_view file_name);
// Returns the name for messages: a URL without its user information and its query, which may be secret.
std::string display_name(std::string_view file_name);

// Sets what every thread that waits for a server calls about four times a second, for programs that a person
// interrupts; nullptr for nothing. What it throws ends the read. Thread-safe, as the function must be.
using WaitCheck = void (*)();
void set_wait_check(WaitCheck check);

// file_name: of a file, or a URL, which can only be read. io_path: a path of the registry, or "auto" for the first one
// available. There is no silent fallback: a named path is used, or the call fails.
std::unique_ptr<File> open_file(const std::string& file_name, OpenMode mode, std::string_view io_path = "auto");

// Copies bytes from one file to another in pieces. REQUIRES: the ranges do not overlap if both are the same file.
void copy_bytes(File& from, std::uint64_t from_offset, File& to, std::uint64_t to_offset, std::uint64_t bytes);

// Whether to write to file systems without fsync of directories (FUSE, 9p, some NFS), where a name may not be durable;
// the result then says so. An error of fsync is always an error.
enum class Durability : std::uint8_t { kIfPossible, kRequired };

// Returns the end of a sentence, for a warning about a result that says so.
std::string_view why_name_is_not_durable();

// A file that appears under its name complete, or not at all. It is written without a name, or under a temporary one
// (NAME.tmp- and eight hex digits) if the file system or the path requires it, then synced and renamed, and the
// directory is synced. If it is destroyed without commit, it leaves nothing behind; a process that is killed may leave
// the temporary file.
//
// Only the current user can open it before it is complete. It then gets the mode, ACL and owner of the file that it
// replaces, provided that the user owns that file or, for root, that only root and its owner can write to the
// directory. Otherwise it gets those of a new file, with a mode no wider than the old one. A symbolic link is replaced,
// not followed. Only a regular file is replaced.
//
// Thread-safety: for one thread at a time, except for file(). Errors: TZE-ENV rules; TZE-AVL-001 if kRefuse is asked
// for and the file system cannot rename without replacing, or if kRequired is asked for and cannot be had.
class AtomicFile {
 public:
  enum class Existing { kReplace, kRefuse };

  explicit AtomicFile(const std::string& final_name, std::string_view io_path = "auto",
                      Existing existing = Existing::kReplace, Durability durability = Durability::kIfPossible);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // REQUIRES: not finished yet.
  File& file();
  // Syncs and closes the file. Only the rename remains.
  void finish();
  // Finishes the file, renames it, and syncs the directory. Returns whether the name is durable.
  bool commit();

 protected:
  struct State;
  explicit AtomicFile(std::unique_ptr<State> state);
  static State& state_of(const AtomicFile& file) { return *file.state_; }

 private:
  std::unique_ptr<State> state_;
};

// How to wait for another process that changes names in a directory, where several files get their names together, or
// that has locked a file which is read and replaced.
struct NamesWait {
  // After that, the new files keep their temporary names, and the call fails with TZE-ENV-008.
  std::chrono::milliseconds elapsed_max = std::chrono::minutes(1);
  std::function<void(const std::string& line)> notice;  // told once, after a second
};

// Installs handlers, for programs: when a signal (SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU) ends the process,
// they remove temporary files first. Signals that are ignored or already handled stay so. A signal is deferred while
// several names change. SIGXFSZ does not end the process: the write beyond the limit fails, and its error names the
// limit.
void remove_temporary_files_at_signals();

// Installs a handler of SIGBUS, for programs, before they start threads: a page that another process truncates while
// the path "mmap" copies it, or that the device fails to read then, is TZE-ENV-005, 002 or 003 with its offset, as on
// other paths. Any other SIGBUS does what it did before. Without this call the signal ends the process.
void catch_bus_errors();

// Creates a file without a name in TMPDIR, or /tmp; it is deleted with the File.
std::unique_ptr<File> temporary_file();

// Copies a stream that cannot seek (a pipe) to a temporary file. check, if given, is called with the first
// kStreamHeadBytes before more is read, or with all of a shorter stream, and throws if it wants no more.
inline constexpr std::size_t kStreamHeadBytes = 4096;
std::unique_ptr<File> spool(int descriptor, const std::function<void(std::span<const std::byte>)>& check = {});

}  // namespace tzmark
