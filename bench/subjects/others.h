// Subjects to compare the codec with: fio, other implementations, and the ceilings.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "harness/ceilings.h"
#include "harness/gpu_ceilings.h"
#include "harness/peer.h"
#include "subjects/ours.h"

namespace tzmark::bench {

// fio with the block size, depth, threads and O_DIRECT of a raw run over that path. REQUIRES: has_fio_job.
std::unique_ptr<Subject> fio_run(Workplace& place, SharedContent content, FileOperation operation,
                                 const IoSettings& moving, Pages pages);

// A single step. Its samples state the measured rate as the time for a fixed number of bytes.
std::unique_ptr<Subject> ceiling(std::shared_ptr<Ladder> ladder, Rung rung);
std::unique_ptr<Subject> ceiling(GpuRung rung, std::size_t working_set_bytes);

// What a peer reads into, which decides where it is installed.
enum class PeerMemory : std::uint8_t { kHost, kGpu };
// The driver of a peer and the interpreter that has the peer installed.
struct PeerPlace {
  std::string interpreter, driver;
  PeerMemory memory = PeerMemory::kHost;
};

class RunningPeer {
 public:
  RunningPeer(PeerPlace where, Pages memory) : pages(memory), place_(std::move(where)) { start(); }

  Peer& process() { return *process_; }
  // Ends the process, and starts another one.
  void restart() {
    process_.reset();
    prepared.reset();
    start();
  }

  const Pages pages;       // of the memory that it reads into and writes from, as far as its allocator can choose
  SharedContent prepared;  // the content whose tensors it holds

 private:
  void start() {
    std::vector<std::string> command = {place_.interpreter, place_.driver, "--pages", std::string(name_of(pages))};
    if (place_.memory == PeerMemory::kGpu) command.emplace_back("--gpu");
    process_.emplace(command);
  }

  const PeerPlace place_;
  std::optional<Peer> process_;
};

// Starts a peer of the installation with this prefix. Returns null and the reason if it is not installed or does not
// work.
std::shared_ptr<RunningPeer> start_peer(std::string_view name, const std::filesystem::path& prefix, Pages memory,
                                        std::string& why, PeerMemory into = PeerMemory::kHost);

struct PeerRun {
  FileOperation operation = FileOperation::kRead;
  bool verify = false;
  std::optional<unsigned> readers = std::nullopt;  // none: the default of the peer
  bool into_device = false;                        // reads into GPU memory
  bool is_first = false;                           // each read is the first one of a process
  bool safetensors = false;                        // reads a safetensors file, as the peer safetensors always does
  std::string framework = {};                      // "numpy" or "torch"; empty: the default of the peer
  bool mapped = false;                             // tensors may be views of a mapping of the file
  bool touch = false;                              // every byte is read once more before the clock stops
};

// Loaders into GPU memory.
inline constexpr std::string_view kGpuLoaders[] = {"instanttensor", "instanttensor_mmap", "fastsafetensors", "runai",
                                                   "runai_uring"};

// The name of the peer that is tzmark's own module in Python.
inline constexpr std::string_view kPythonModule = "tzmark-python";

// A safetensors file has the same tensors. REQUIRES: other files are v4 files.
std::unique_ptr<Subject> peer_run(Workplace& place, SharedContent content, std::shared_ptr<RunningPeer> peer,
                                  const FileFormat& stored, const PeerRun& run);

// A read of a peer that is not installed: its verification throws TZE-AVL-001 with the reason.
std::unique_ptr<Subject> missing_peer(const SharedContent& content, std::string_view name, std::string why);

}  // namespace tzmark::bench
