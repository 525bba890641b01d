// The files of a model's shards. Only a bounded number is open at a time, since a model may have more shards than a
// process may open files. One that is opened again must be the same file in the same state, so that what is read never
// mixes two models.
//
// Thread-safety: with may be called by any number of threads; add comes before. A thread must not call with inside of
// with: it could wait for itself.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tzmark/io.h"

namespace tzmark::safetensors {

class ShardFiles {
 public:
  explicit ShardFiles(std::string io_path);

  // Adds the file of the next shard, which is opened at first use.
  void add(std::string file_name);
  // Adds a file that stays open.
  void add(std::unique_ptr<File> file);

  // Calls action with the file of a shard. Waits while as many other shards as may be open are in use. Throws
  // TZE-ENV-005 if another file has taken the place of the shard, or if it was changed.
  template <typename Action>
  auto with(std::size_t shard, Action&& action) {
    const Use use(*this, shard);
    return action(use.file);
  }

 private:
  struct Shard {
    std::string file_name;  // empty: stays open
    std::unique_ptr<File> file;
    std::optional<FileVersion> version;  // when it was opened first
    unsigned users = 0;
    std::uint64_t used_at = 0;
  };
  struct Use {
    Use(ShardFiles& of, std::size_t number) : files(of), shard(of.shards_[number]), file(of.take(shard)) {}
    ~Use() { files.give_back(shard); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    ShardFiles& files;
    Shard& shard;
    File& file;
  };

  File& take(Shard& shard);
  void give_back(Shard& shard) noexcept;
  void open(Shard& shard) const;
  // Closes the file that was not used for the longest time. Returns false if all are in use.
  bool close_idle();

  const std::string io_path_;
  const std::size_t open_max_;
  std::vector<Shard> shards_;
  std::mutex mutex_;                 // of what follows, and of all shards
  std::condition_variable is_free_;  // a file is not in use any more
  std::size_t open_count_ = 0, idle_count_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace tzmark::safetensors
