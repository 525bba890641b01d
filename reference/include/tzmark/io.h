// Files, and the paths by which bytes reach them.
//
// A File is one open file over one I/O path. Reads and writes at any offset may run at the same time from any threads.
// The public calls move all bytes or throw: short transfers and interrupted calls are dealt with here, once, for every
// path. A path implements the protected calls, which may move less.
// A TransferQueue keeps several transfers of one thread in flight, where the path can.
// Errors: TZE-ENV rules with the file offset; TZE-AVL-001 for a path that this machine lacks.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tzmark/buffer.h"

namespace tzmark {

// One move of bytes between a file and memory. Whoever starts it keeps it and its memory in place until it is through.
struct Transfer {
  enum class Kind : std::uint8_t { kRead, kWrite };

  Kind kind = Kind::kRead;
  std::uint64_t offset = 0;
  MutableBuffer memory;      // which a write leaves as it is
  void* owner = nullptr;     // the caller's; no queue looks at it
  std::exception_ptr error;  // set when it is through: what read_at or write_at would have thrown
};

// Transfers of one thread that are in flight on one file: made, used and destroyed by that thread.
// Destroyed, it waits for what is still in flight.
class TransferQueue {
 public:
  virtual ~TransferQueue() = default;
  TransferQueue(const TransferQueue&) = delete;
  TransferQueue& operator=(const TransferQueue&) = delete;

  virtual unsigned depth() const = 0;
  virtual unsigned in_flight() const = 0;
  // REQUIRES: in_flight() < depth(). Never throws for the transfer's own sake: its error is set instead. A path that
  // cannot go on beside the caller moves the bytes here.
  virtual void start(Transfer& transfer) = 0;
  // The next transfer that is through, whole or with its error. REQUIRES: in_flight() > 0.
  virtual Transfer& wait() = 0;
  // The same, if one is through by now; nothing otherwise. Never waits.
  virtual Transfer* poll() = 0;
  // Says what memory transfers will use, again and again, where a path gains from knowing that. Called once at most,
  // before the first start. A queue that is refused it by the system goes on without.
  virtual void register_memory(std::span<const MutableBuffer>) {}

 protected:
  TransferQueue() = default;
};

class File {
 public:
  virtual ~File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // The I/O path that really moves the bytes, as in the registry ("pwrite").
  virtual std::string_view io_path() const = 0;
  virtual std::uint64_t size() const = 0;

  // Fills all of out from offset on. Throws TZE-ENV-005 if the file ends before.
  void read_at(std::uint64_t offset, MutableBuffer out);
  void write_at(std::uint64_t offset, ConstBuffer in);
  // Returns when the content would survive a loss of power.
  void sync();

  // depth: the most transfers in flight; a path that moves bytes in start has a depth of 1 whatever is asked for.
  virtual std::unique_ptr<TransferQueue> make_queue(unsigned depth);
  // Whether its queues go on beside the caller, so that one thread keeps many transfers in flight.
  virtual bool is_asynchronous() const { return false; }
  // Transfers in flight, over all threads, that serve this path well. 0: as many as there are threads, since each
  // keeps a core busy.
  virtual unsigned queue_depth_default() const { return 0; }
  // What offsets in the file and addresses in memory have to agree modulo, so that bytes move without a detour.
  virtual std::size_t transfer_align_bytes() const { return 1; }
  // Whether it moves bytes between storage and GPU memory by itself; other paths refuse buffers of that kind.
  virtual bool moves_device_memory() const { return false; }
  // Says how large the file will be, to a path that writes better into room that is there. Throws TZE-ENV rules if
  // there is no room. The size may be the new one at once.
  virtual void reserve(std::uint64_t bytes);

 protected:
  File() = default;
  // Moves at least one byte, and returns how many; 0 from read_some is the end of the file.
  virtual std::size_t read_some(std::uint64_t offset, MutableBuffer out) = 0;
  virtual std::size_t write_some(std::uint64_t offset, ConstBuffer in) = 0;
  virtual void sync_all() = 0;
};

enum class OpenMode {
  kRead,
  kCreate,  // must not exist; readable and writable
  kModify,  // must exist; readable and writable
};

// One row of the registry of paths.
struct IoPath {
  std::string_view name;
  std::string_view summary;
  std::string_view variant_of;  // the path that this is a variant of; empty if it stands for itself
  // Why this machine cannot use the path; empty if it can.
  std::function<std::string()> why_unavailable;
  std::function<std::unique_ptr<File>(const std::string& file_name, OpenMode)> open;
};

std::span<const IoPath> io_paths();

// name: a path of the registry, or "auto". A named path is used or the call fails: nothing falls back silently.
std::unique_ptr<File> open_file(const std::string& file_name, OpenMode mode, std::string_view io_path = "auto");

// Moves bytes from one file to another in pieces. REQUIRES: the ranges do not overlap if both are the same file.
void copy_bytes(File& from, std::uint64_t from_offset, File& to, std::uint64_t to_offset, std::uint64_t bytes);

class Directory;  // of the library

// A file that appears under its name whole or not at all: written without a name, or under a temporary one (NAME.tmp-
// and eight hex digits) where the file system or the path needs that, then synced, renamed, and the directory synced.
// Destroyed without commit, it leaves nothing behind; a process that is killed may leave the temporary file.
// Until it is whole only its user can open it. Then it gets mode, ACL and owner of the file that it replaces, if that
// belongs to the user or, for root, if only root and its owner can write the directory; else those of a new file, with
// no wider mode. A symbolic link is replaced itself. What is no regular file is not replaced.
// Errors: TZE-ENV rules; TZE-AVL-001 where the file system cannot refuse to replace, and kRefuse asks for that.
// For one thread at a time, but for the File itself.
class AtomicFile {
 public:
  enum class Existing { kReplace, kRefuse };

  explicit AtomicFile(const std::string& final_name, std::string_view io_path = "auto",
                      Existing existing = Existing::kReplace);
  // In a directory that is open already: that of final_name.
  AtomicFile(std::shared_ptr<const Directory> directory, const std::string& final_name, std::string_view io_path,
             Existing existing);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // REQUIRES: not finished yet.
  File& file();
  // Syncs and closes the file, which then only lacks its name.
  void finish();
  void commit();

  struct State;  // private to the library

 private:
  friend class NameChanges;
  friend bool can_link(const AtomicFile& file);
  std::unique_ptr<State> state_;
};

// For programs: when a signal (SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU, SIGXFSZ) ends the process, temporary
// files are removed before. What is ignored or handled otherwise stays so. A signal waits while several names change.
void remove_temporary_files_at_signals();

// A file without a name in TMPDIR, or /tmp, which is gone when the File is.
std::unique_ptr<File> temporary_file();

// Copies a stream that cannot seek (a pipe) to a temporary file.
std::unique_ptr<File> spool(int descriptor);

}  // namespace tzmark
