// The states in which a disk may be when the power comes back, after any of the events that were recorded.
//
// Sure is what was synced: the bytes of a file by fsync of the file, a name by fsync of its directory. Of the rest:
// - Any of a directory's changes may be lost or kept. A rename or an exchange of names in one directory is atomic.
// - Each sector (512 bytes) or page (4096 bytes) of a file has any of the contents that it had since the last sync, or
//   zeros if it is new. The size of the file is any of those that it had, whatever of its bytes is there.
// - An inserted range (FALLOC_FL_INSERT_RANGE) is lost, or there, or there in part. ext4 and xfs write back what lies
//   behind it, make the file larger, and then move its extents from the last to the first, each atomically: so what is
//   behind a certain place has moved, and what is between the inserted range and that place has not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "testing/disk/file_pool.h"
#include "testing/disk/trace.h"

namespace tzmark::test {

// What of a disk's state survives that was not synced.
enum class Survival {
  kNothing,
  kAll,
  kNames,  // all names and sizes, and zeros in place of new bytes
  kLater,  // all but the names that the sync that was left out would have made durable
  kSome,   // random
};

struct DiskState {
  struct Entry {
    std::string path;  // relative
    FileNumber file;
    std::optional<Bytes> content;  // none: a directory
  };
  std::vector<Entry> entries;          // a directory before what is in it
  bool has_partial_insertion = false;  // a range was inserted in part

  std::uint64_t hash() const;
  // Makes this the content of an empty directory.
  void make(const std::string& directory, FilePool& pool) const;
};

class CrashModel {
 public:
  explicit CrashModel(const DiskTrace& trace);

  // The event happens. It has to stay where it is for as long as the model lives.
  void apply(const DiskEvent& event);
  // The sync does not happen.
  void leave_out(const DiskEvent& sync);
  // Whether all is synced, so that there is one state.
  bool is_durable() const;
  DiskState state(Survival survival, std::mt19937_64& random) const;

 private:
  struct Node {
    std::optional<DirectoryEntries> entries;  // of a directory, as synced
    Bytes content;                            // as synced
    std::vector<const DiskEvent*> pending;    // since then
    std::size_t left_out = 0;                 // so many of these would be synced, had no sync been left out
  };

  void add(const DirectoryEntries& entries, const std::string& path, Survival survival, std::mt19937_64& random,
           std::vector<std::optional<Bytes>>& contents, DiskState& state) const;

  std::vector<Node> nodes_;
};

}  // namespace tzmark::test
