// What a program does to the files of a directory, recorded while it does it: for the model of a disk that loses power.
//
// Files and directories have numbers, in the order in which they are met; 0 is the directory that is recorded. Modes
// and owners are not recorded: they decide who may read a file, and not what is in it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "testing/disk/file_pool.h"
#include "testing/faults/system_calls.h"
#include "testing/files/test_directory.h"

namespace tzmark::test {

using DirectoryEntries = std::map<std::string, FileNumber>;

struct DiskEvent {
  enum class Kind {
    kWrite,
    kResize,         // to `offset` bytes
    kExtend,         // to `offset` + `bytes` at least, with zeros
    kInsert,         // of `bytes` zeros at `offset`, which moves what is there
    kSync,           // of a file
    kNames,          // entries of a directory are set at once, or removed
    kSyncDirectory,  // of its entries
  };
  Kind kind;
  FileNumber file;
  std::uint64_t offset = 0, bytes = 0;
  Bytes content = {};
  std::map<std::string, std::optional<FileNumber>> names = {};
  std::string what = {};  // for people

  bool is_sync() const { return kind == Kind::kSync || kind == Kind::kSyncDirectory; }
};

struct DiskTrace {
  struct StartFile {
    std::optional<DirectoryEntries> entries = {};  // of a directory
    Bytes content = {};
  };
  // All files that are met, with what they have when the recording begins, which is durable.
  std::vector<StartFile> files;
  std::vector<DiskEvent> events;
  std::map<std::string, Bytes> end;  // the files that are there in the end
  // How many events there were when the hook let a call fail for the first time.
  std::optional<std::size_t> events_before_failure;
};

// Runs an action that changes files of a directory, and records what it does. All files end in the pool, and the
// directory is empty. The hook may let calls fail.
DiskTrace record_disk(const std::string& directory, FilePool& pool, const std::function<void()>& action,
                      const SystemCalls::Hook& hook);

// Answers fallocate(FALLOC_FL_INSERT_RANGE) as ext4 and xfs do, on file systems that lack it: moves the bytes.
std::int64_t insert_range(int fd, std::uint64_t offset, std::uint64_t bytes);

}  // namespace tzmark::test
