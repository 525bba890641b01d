// Subjects that are compared in contests, the checks made of them, and helpers that several groups share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/check.h"

namespace tzmark::bench {

// A group declares its subjects and the checks between them, and then runs. For one thread at a time.
class CheckGroup {
 public:
  // name: tells its results from those of the same subjects in other groups.
  CheckGroup(Workplace& place, const CheckOptions& options, std::string_view name)
      : place_(place), options_(options), name_(name) {}

  using Index = std::size_t;

  Index add(std::unique_ptr<Subject> subject) {
    subject->description().group = name_;
    measured_.push_back({std::move(subject), {}, {}});
    return measured_.size() - 1;
  }

  // Compares the first subject with what the function makes of the others: both in seconds per byte.
  using Expected = std::function<double(std::span<const double> seconds_per_byte)>;
  void against(RatioCheck check, std::vector<Index> subjects, const Expected& expected);

  // Compares a with b.
  void ratio(std::string item, std::string name, Index a, Index b, double required, std::string note = {});
  // Compares the best of ours with the best of theirs; a few rounds that do not count tell which they are.
  void best_ratio(RatioCheck check, std::vector<Index> ours, std::vector<Index> theirs);
  // Compares a with the rate that its steps allow: in sequence on the same cores, or with the device working in
  // parallel to the cores.
  void against_steps(std::string item, std::string name, Index a, Index path, const std::vector<Index>& steps,
                     bool device_beside, double required);

  // Adds a check that needs no contest.
  void conclude(RatioCheck check) { checks_.push_back(std::move(check)); }

  // Verifies the subjects and decides the checks. filter: of all groups, so that each knows what the machine was like.
  void run(std::chrono::nanoseconds budget, DisturbanceFilter& filter);

  SharedContent content(Workload workload, std::uint64_t memory_bytes_max = ~std::uint64_t{0}) {
    workloads_.push_back(workload);
    return std::make_shared<TensorContent>(std::move(workload), memory_bytes_max);
  }

  void finish(const GroupDone& done);

  std::string id(Index i) const { return measured_[i].description().id(); }
  Workplace& place() { return place_; }
  const CheckOptions& options() const { return options_; }
  unsigned threads() const { return thread_count(0); }

 private:
  // A check, its contest, and the candidates for the contest's two subjects where they are not chosen yet.
  struct Entry {
    RatioCheck check;
    Contest contest;
    std::vector<Index> ours = {}, theirs = {};
  };

  void choose_best();
  Index best_of(const std::vector<Index>& among) const;
  void conclude(Entry& entry);

  Workplace& place_;
  const CheckOptions& options_;
  const std::string name_;
  std::vector<Workload> workloads_;
  std::vector<Measured> measured_;
  std::vector<Entry> entries_;
  std::vector<RatioCheck> checks_;
};

// Returns a workload of 32 large tensors, or as many as the options say: enough that the last one, whose SHA-256 runs
// on one core, is a small share. For a path that bypasses the page cache it has more of them: what the codec does
// before a device's first transfer and after its last one overlaps with none, and took a twelfth of a read of 128 MiB.
Workload large_tensors(const CheckOptions& options, std::string_view io = {});
// The same for writes: half as many bytes through the page cache, where they take longer.
Workload written_tensors(const CheckOptions& options, std::string_view io);

Cache cache_for(std::string_view io);
// Returns all paths of the registry that move host memory, available or not.
std::vector<std::string> host_paths();
// The same without paths that are measured only if they are named: one with a polling kernel thread needs a core of its
// own, and one that drops pages reads from the cache as its main path does.
std::vector<std::string> usual_paths();

// A peer for each kind of pages, of which the best counts.
using Peers = std::vector<std::shared_ptr<RunningPeer>>;
// Starts a peer for each, or returns none and the reason.
Peers start_peers(std::string_view name, std::string& why);
// Adds the reads of peers at several numbers of readers, of which the best counts. reading: without that number.
std::vector<std::size_t> peer_reads(CheckGroup& group, const SharedContent& content, const Peers& peers,
                                    const FileFormat& stored, PeerRun reading);

// Item 8: the module in Python against tensorizer and the codec. Item 9: the same against safetensors, with every byte
// touched.
void python_module(CheckGroup& group, std::string_view workload);
void python_module_safetensors(CheckGroup& group, std::string_view workload);

// Item 7: reads into GPU memory, the same against tensorizer, and those of the module in Python, against other loaders;
// and saves from GPU memory.
void gpu_memory(CheckGroup& group);
void gpu_against_peer(CheckGroup& group);
void gpu_python(CheckGroup& group);
void gpu_checkpoint(CheckGroup& group);

}  // namespace tzmark::bench
