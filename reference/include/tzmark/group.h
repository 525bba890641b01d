// Reading and writing one file by a group of processes together.
//
// Reading: each rank gets the whole file, and storage is read once.
// The ranks of the group open the same file, each for itself. The bytes of the tensors are then exchanged in chunks:
// one rank reads a chunk from storage and broadcasts it to all. Files on storage that the ranks share are read once
// instead of once per rank, and copies on local disks are read a part by each.
//
// Collective calls: every rank calls them, in the same order and with the same options; they are marked below. A rank
// that fails takes part until the exchange ends, so that the others do not wait for it.
// Writing: each rank writes some of the tensors into one file, which appears when all have written.
// Thread-safety: a GroupFile is read by any number of threads; start and finish are for one thread. While an exchange
// runs, only a thread of the GroupFile calls the Group. Ownership: the Group must outlive the GroupFile.
// Errors: those of the file. One that a rank found reaches the others with "rank N: " before its text. TZE-ENV-005 if
// the files of the ranks differ; TZE-ENV-002 if the group is broken.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tzmark/io.h"
#include "tzmark/memory.h"
#include "tzmark/reader.h"
#include "tzmark/table.h"
#include "tzmark/writer.h"

namespace tzmark {

// The processes, or threads, that read together. Implemented by the caller, over MPI or torch.distributed.
// Calls come from one thread at a time, but not always from the same one: MPI needs MPI_THREAD_SERIALIZED.
class Group {
 public:
  virtual ~Group() = default;
  virtual unsigned rank() const = 0;  // of this process, below size()
  virtual unsigned size() const = 0;  // at least 1
  // Copies the memory of rank root to the memory of all ranks. Collective, with the same root and size. size: from 1
  // byte to a few KiB more than GroupReadOptions::chunk_bytes. Throws if the group is broken, for instance because a
  // process died; it is not called again then.
  virtual void broadcast(std::span<std::byte> memory, unsigned root) = 0;
  // Copies the parts of all ranks to all. memory: size() parts of equal length in the order of the ranks, of which that
  // of this rank is filled before. Collective, with the same size of memory. Throws as broadcast. Unless it is
  // overridden, it broadcasts one part after another, which over a network takes longer the more ranks there are.
  virtual void all_gather(std::span<std::byte> memory) {
    const std::size_t part_bytes = memory.size() / size();
    for (unsigned root = 0; root < size(); ++root) broadcast(memory.subspan(root * part_bytes, part_bytes), root);
  }

  // Called before each chunk that this rank sends; must not block. What it throws ends the read on all ranks.
  virtual void check() {}

 protected:
  Group() = default;
  Group(const Group&) = default;
  Group& operator=(const Group&) = default;
};

enum class GroupRead : std::uint8_t {
  kBroadcast,  // rank 0 reads all chunks
  kGather,     // rank k % size reads chunk k, and the ranks gather as many chunks at a time as they are
};

struct GroupReadOptions {
  GroupRead how = GroupRead::kGather;
  // Of a chunk, at most; a multiple of 4096. To gather, chunks are smaller, but not below 128 KiB, where the ranks
  // would hold more memory than they may, or would not have several each. The same on all ranks, as the next one.
  std::size_t chunk_bytes = 8 << 20;
  std::size_t memory_bytes_max = 256 << 20;  // of the chunks that this rank holds; at least two exchanges are held
  unsigned queue_depth = 0;                  // transfers of this rank in flight; 0 = the I/O path's default
  std::size_t transfer_bytes = 0;            // of a transfer from storage; 0 = the I/O path's default
};

// What one rank did so far.
struct GroupReadCounts {
  std::uint64_t storage_bytes = 0;   // read from this rank's own file, for whatever reason
  std::uint64_t opening_bytes = 0;   // of these, read before the exchange: file header and index
  std::uint64_t reread_bytes = 0;    // of these, what had been exchanged, but was dropped before it was asked for
  std::uint64_t sent_bytes = 0;      // broadcast by this rank
  std::uint64_t received_bytes = 0;  // broadcast by others
  std::uint64_t chunks = 0;          // of both
};

// A range of a file.
struct FileRange {
  std::uint64_t begin = 0, end = 0;

  friend bool operator==(const FileRange&, const FileRange&) = default;
};

// A file of which the group reads ranges together. Before start, and outside the ranges, it reads this rank's own file.
// Reads only, into host memory.
class GroupFile final : public File {
 public:
  // file: this rank's own. Not collective. Throws kUsage for a chunk size that is no multiple of 4096, or 0.
  GroupFile(std::unique_ptr<File> file, Group& group, const GroupReadOptions& options);
  // Calls finish.
  ~GroupFile() override;

  // Collective. Rank 0 reads the range and broadcasts it; reads in it are then served from memory. For a small range
  // that is read now and then, such as the headers of all tensors. REQUIRES: no exchange runs; begin <= end <= size().
  void keep(FileRange range);
  // Collective, once. Begins to exchange the ranges, in file order, and returns; a read of a byte that is not in yet
  // waits for it. Chunks without a byte of a range are left out. Each byte should be read once and about in order: a
  // chunk that is read out of order may be read again, from this rank's own file.
  // Throws on all ranks if one of them lacks memory or threads, or if the ranges or options of the ranks differ.
  // REQUIRES: the ranges are sorted, do not overlap, and lie in the file.
  void start(std::span<const FileRange> ranges);
  // Takes part until the exchange ends, and discards what is still to come; the reads of all threads must have
  // returned. Afterwards the caller may use the Group again. Does not throw: failure() tells.
  void finish() noexcept;

  // Why the exchange ended early, as every rank sees it; null if it did not.
  std::exception_ptr failure() const;
  // Whether a broadcast failed, so that the Group cannot be used any more.
  bool is_group_broken() const;
  GroupReadCounts counts() const;
  // The SHA-256 of all bytes that were read before start, in order: equal on all ranks that opened the same file.
  std::array<std::byte, 32> opening_digest() const;

  std::string_view io_path() const override;  // of this rank's own file
  std::uint64_t size() const override;
  std::optional<RequestCounts> request_counts() const override;
  std::uint64_t window_bytes() const override;

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override;
  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override;
  void sync_all() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Collective. Opens the file on each rank, compares what the ranks opened, exchanges the bytes of all tensors, and
// calls use(reader) on each rank meanwhile; use may read them once, as by Reader::load, scan or verify. It must not use
// the Group. Returns on all ranks or throws on all: a rank on which something failed throws what it threw, and the
// others the error of the lowest such rank. With detached data, it is those that are exchanged.
// open: opens a file of this rank by its name. Returns what this rank read and exchanged.
GroupReadCounts read_together(const std::string& file_name,
                              const std::function<std::unique_ptr<File>(const std::string& name)>& open, Group& group,
                              const GroupReadOptions& group_options, ReadOptions options,
                              const std::function<void(const Reader&)>& use);

// Collective. Loads every tensor on every rank: Reader::load over read_together, by the I/O path of the options.
// counts: receives what this rank read, unless it is null.
LoadedTensors load_together(const std::string& file_name, Group& group, const GroupReadOptions& group_options = {},
                            ReadOptions options = {}, Verification verify = Verification::kAll,
                            HostMemory::Pages pages = HostMemory::Pages::kHuge, GroupReadCounts* counts = nullptr);

// Consecutive tensors of a table.
struct TensorRange {
  std::size_t first = 0, end = 0;

  friend bool operator==(const TensorRange&, const TensorRange&) = default;
};

// Divides the tensors among the ranks by their bytes. A tensor is not divided: a rank gets about an equal share, or
// nothing where a tensor has more than that. REQUIRES: rank < size.
TensorRange share_of(const TensorTable& tensors, unsigned rank, unsigned size);

// Collective. Writes a file as write_file does, but each rank writes the tensors of its range: headers and data at the
// places that the table and the options give, so that the file equals that of one process byte for byte. The table and
// the options are equal on all ranks, and the ranges, in any order, divide the tensors. The source of a rank is only
// asked for its own tensors.
// file_name: one file, on a file system that all ranks share and that keeps what two machines write to neighbouring
// bytes of a page, as local ones and GlusterFS do, and NFS and Lustre should. All ranks run as one user.
// The file appears under its name after every rank has written and synced its part. If a rank fails, no file appears,
// an old one stays, and every rank throws: a rank on which something failed what it threw, and the others the error of
// the lowest such rank. Where rank 0 or all ranks are killed, a temporary file may be left.
// Throws kUsage on all ranks for encryption and detached data, for tables or options that differ, and for ranges that
// overlap or leave a tensor out.
WriteResult write_together(const std::string& file_name, const TensorTable& tensors, const TensorRange& own,
                           const TensorSource& source, Group& group, const WriteOptions& options);

}  // namespace tzmark
