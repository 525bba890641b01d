// Subjects that run in the same rounds, the checks made of them, and helpers that several groups share.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/check.h"

namespace tzmark::bench {

// For one thread at a time.
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

  void run() { run_rounds(measured_, options_.rounds); }

  // The rates that count: of a write, until its data is durable.
  std::vector<double> rates(Index i) const {
    const Measured& m = measured_[i];
    return m.description().operation == FileOperation::kWrite ? m.durable_rates() : m.rates();
  }
  const std::string& why(Index i) const { return measured_[i].why; }
  std::string id(Index i) const { return measured_[i].subject->description().id(); }

  // Returns for each round the rate of the subject that was best in the other rounds. Choosing by the same round would
  // favor lucky samples.
  std::vector<double> best_rates(const std::vector<Index>& among) const {
    std::vector<double> best;
    for (std::size_t round = 0; round < options_.rounds.rounds; ++round) {
      double best_median = -1;
      double rate = 0;
      for (const Index i : among) {
        std::vector<double> others = rates(i);
        if (round >= others.size()) continue;
        const double its = others[round];
        if (others.size() > 1) others.erase(others.begin() + static_cast<std::ptrdiff_t>(round));
        if (const double median = median_interval(std::move(others)).median; median > best_median) {
          best_median = median;
          rate = its;
        }
      }
      if (best_median >= 0) best.push_back(rate);
    }
    return best;
  }

  // Compares the best of ours with the best of theirs in each round.
  void best_ratio(RatioCheck check, const std::vector<Index>& ours, const std::vector<Index>& theirs) {
    for (const Index i : ours) check.measured.push_back(id(i));
    for (const Index i : theirs) check.against.push_back(id(i));
    std::vector<double> ratios = best_rates(ours);
    const std::vector<double> others = best_rates(theirs);
    ratios.resize(std::min(ratios.size(), others.size()));
    for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] /= others[i];
    if (ratios.empty()) check.note = others.empty() ? why(theirs.front()) : why(ours.front());
    conclude(std::move(check), std::move(ratios));
  }

  // Compares a with b in each round.
  void ratio(std::string item, std::string name, Index a, Index b, double required, std::string note = {}) {
    std::vector<double> ratios = rates(a);
    const std::vector<double> others = rates(b);
    const bool both = measured_[a].why.empty() && measured_[b].why.empty();
    for (std::size_t i = 0; both && i < ratios.size(); ++i) ratios[i] /= others[i];
    if (!both) note = why(a).empty() ? why(b) : why(a);
    conclude({std::move(item), std::move(name), {id(a)}, {id(b)}, {}, required, false, {}, std::move(note)},
             both ? std::move(ratios) : std::vector<double>());
  }

  // Compares a with the rate that its steps allow, measured in the same rounds: in sequence on the same cores, or with
  // the device working in parallel to the cores.
  void against_steps(std::string item, std::string name, Index a, Index path, const std::vector<Index>& steps,
                     bool device_beside, double required) {
    RatioCheck check{std::move(item), std::move(name), {id(a)}, {id(path)}, {}, required, false, {}, {}};
    for (const Index step : steps) check.against.push_back(id(step));
    for (const Index i : {a, path}) {
      if (!why(i).empty()) check.note = why(i);
    }
    if (!check.note.empty()) return conclude(std::move(check), {});
    std::vector<double> ratios = rates(a);
    for (std::size_t i = 0; i < ratios.size(); ++i) {
      double cpu_seconds = 0;  // per byte
      for (const Index step : steps) cpu_seconds += 1 / rates(step)[i];
      const double path_rate = rates(path)[i];
      const double expected = device_beside ? std::min(path_rate, 1 / cpu_seconds) : 1 / (1 / path_rate + cpu_seconds);
      ratios[i] /= expected;
    }
    check.note = device_beside ? "of min(path, 1/sum of 1/step)" : "of 1/(1/path + sum of 1/step)";
    conclude(std::move(check), std::move(ratios));
  }

  void conclude(RatioCheck check, std::vector<double> ratios) {
    check.ratio = median_interval(std::move(ratios));
    check.verdict = judge(check.ratio, check.required, check.at_most);
    conclude_as_is(std::move(check));
  }

  void conclude_as_is(RatioCheck check) { checks_.push_back(std::move(check)); }

  SharedContent content(Workload workload, std::uint64_t memory_bytes_max = ~std::uint64_t{0}) {
    workloads_.push_back(workload);
    return std::make_shared<TensorContent>(std::move(workload), memory_bytes_max);
  }

  void finish(const GroupDone& done) {
    done(workloads_, measured_, checks_);
    measured_.clear();
    place_.clear();
  }

  Workplace& place() { return place_; }
  const CheckOptions& options() const { return options_; }
  unsigned threads() const { return thread_count(0); }

 private:
  Workplace& place_;
  const CheckOptions& options_;
  const std::string name_;
  std::vector<Workload> workloads_;
  std::vector<Measured> measured_;
  std::vector<RatioCheck> checks_;
};

// Returns a workload of 32 large tensors: enough that the last one, whose SHA-256 runs on one core, is a small share.
Workload large_tensors(const CheckOptions& options);

Cache cache_for(std::string_view io);
// Returns all paths of the registry except gpudirect.
std::vector<std::string> host_paths();

// A peer for each kind of pages, of which the best counts.
using Peers = std::vector<std::shared_ptr<RunningPeer>>;
// Starts a peer for each, or returns none and the reason.
Peers start_peers(std::string_view name, std::string& why);
// Adds the reads of peers at several numbers of readers, of which the best counts. reading: without that number.
std::vector<std::size_t> peer_reads(CheckGroup& group, const SharedContent& content, const Peers& peers,
                                    const FileFormat& stored, PeerRun reading);

// Item 7: reads into GPU memory, and the same against tensorizer.
void gpu_memory(CheckGroup& group);
void gpu_against_peer(CheckGroup& group);

}  // namespace tzmark::bench
