// Helpers of the check groups; see check_group.h.
#include "cli/check_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "program/installation.h"
#include "subjects/others.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

constexpr unsigned kChoosingRounds = 3, kChoosingTries = 3;

// What tzmark is compared with. If it breaks, there is nothing to compare, and tzmark has not failed.
bool is_of_others(const Measured& measured) {
  const RunDescription& d = measured.description();
  const bool is_module = d.peer.is_object() && d.peer.value("name", "") == kPythonModule;
  return d.subject == "fio" || (d.subject == "peer" && !is_module);
}

}  // namespace

void CheckGroup::against(RatioCheck check, std::vector<Index> subjects, const Expected& expected) {
  Contest contest{
      .name = check.name,
      .subjects = std::move(subjects),
      .ratio = [expected](std::span<const double> seconds) { return expected(seconds.subspan(1)) / seconds.front(); },
      .required = check.required,
      .at_most = check.at_most};
  entries_.push_back({std::move(check), std::move(contest)});
}

void CheckGroup::ratio(std::string item, std::string name, Index a, Index b, double required, std::string note) {
  against({.item = std::move(item), .name = std::move(name), .required = required, .note = std::move(note)}, {a, b},
          [](std::span<const double> seconds) { return seconds.front(); });
}

void CheckGroup::best_ratio(RatioCheck check, std::vector<Index> ours, std::vector<Index> theirs) {
  against(std::move(check), {ours.front(), theirs.front()},
          [](std::span<const double> seconds) { return seconds.front(); });
  Entry& entry = entries_.back();
  entry.ours = std::move(ours);
  entry.theirs = std::move(theirs);
}

void CheckGroup::against_steps(std::string item, std::string name, Index a, Index path, const std::vector<Index>& steps,
                               bool device_beside, double required) {
  std::vector<Index> subjects = {a, path};
  subjects.insert(subjects.end(), steps.begin(), steps.end());
  against({.item = std::move(item),
           .name = std::move(name),
           .required = required,
           .note = device_beside ? "of min(path, 1/sum of 1/step)" : "of 1/(1/path + sum of 1/step)"},
          std::move(subjects), [device_beside, lead = 0.0](std::span<const double> seconds) mutable {
            const double path_seconds = seconds.front();
            const double steps_seconds = std::accumulate(seconds.begin() + 1, seconds.end(), 0.0);
            if (!device_beside) return path_seconds + steps_seconds;
            // The laps before tell which of the two is the limit: the larger one of a lap would be too large by its
            // noise.
            const double limit = lead == 0  ? std::max(path_seconds, steps_seconds)
                                 : lead > 0 ? path_seconds
                                            : steps_seconds;
            lead += std::clamp(std::log(path_seconds / steps_seconds), -1.0, 1.0);
            return limit;
          });
}

CheckGroup::Index CheckGroup::best_of(const std::vector<Index>& among) const {
  return *std::ranges::max_element(among, {}, [&](Index i) {
    const Measured& m = measured_[i];
    return m.why.empty() && !m.samples.empty() ? median_interval(m.durable_rates()).median : -1.0;
  });
}

// Chooses with samples that no ratio uses: the luck that made one the best must not count.
void CheckGroup::choose_best() {
  std::vector<Index> candidates;
  for (const Entry& entry : entries_) {
    for (const auto& side : {entry.ours, entry.theirs}) {
      if (side.size() > 1) candidates.insert(candidates.end(), side.begin(), side.end());
    }
  }
  std::ranges::sort(candidates);
  const auto rest = std::ranges::unique(candidates);
  candidates.erase(rest.begin(), rest.end());
  std::mt19937_64 random(options_.contests.seed);
  std::size_t taken = 0;
  unsigned tries = 0;  // of the sample that is taken
  SubjectSource source(measured_);
  DisturbanceFilter filter(options_.contests.is_disturbed);
  const auto next = [&]() -> std::vector<std::size_t> {
    for (; taken < kChoosingRounds * candidates.size(); ++taken) {
      if (tries == 0 && taken % candidates.size() == 0) std::ranges::shuffle(candidates, random);
      const Index i = candidates[taken % candidates.size()];
      if (!measured_[i].why.empty()) continue;
      if (tries == 0 && options_.contests.progress) options_.contests.progress("choose the best: " + id(i));
      return {i};
    }
    return {};
  };
  // Repeats a disturbed sample, as a lap would be.
  const auto conclude = [&](const Lap& lap) {
    const bool is_repeated = lap.result == LapResult::kDisturbed && ++tries < kChoosingTries;
    if (is_repeated) {
      measured_[lap.samples.front().source].samples.pop_back();
    } else {
      tries = 0;
      ++taken;
    }
  };
  Engine(source, filter, {.stop = options_.contests.stop, .now = options_.contests.now}).run({next, conclude});
  for (Entry& entry : entries_) {
    if (!entry.ours.empty()) entry.contest.subjects = {best_of(entry.ours), best_of(entry.theirs)};
  }
}

void CheckGroup::run(std::chrono::nanoseconds budget, DisturbanceFilter& filter) {
  const auto begin = options_.contests.now();
  verify_subjects(measured_, options_.contests.progress, options_.contests.stop);
  choose_best();
  std::vector<Contest> contests;
  for (const Entry& entry : entries_) contests.push_back(entry.contest);
  ContestOptions options = options_.contests;
  options.budget = budget - (options.now() - begin);
  run_contests(measured_, contests, options, filter);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].contest = std::move(contests[i]);
    conclude(entries_[i]);
  }
  entries_.clear();
  if (!options_.contests.is_stopped()) return;
  for (Measured& measured : measured_) note_interruption(measured);
}

void CheckGroup::conclude(Entry& entry) {
  RatioCheck& check = entry.check;
  const Contest& contest = entry.contest;
  check.ratio = contest.interval.interval();
  check.disturbed_laps = contest.disturbed_laps;
  check.elapsed_ns = contest.elapsed_ns;
  // Only a subject that has been verified knows its whole id.
  const std::vector<Index>& subjects = contest.subjects;
  if (entry.ours.empty()) {
    check.measured = {id(subjects.front())};
    for (std::size_t i = 1; i < subjects.size(); ++i) check.against.push_back(id(subjects[i]));
  } else {
    for (const Index i : entry.ours) check.measured.push_back(id(i));
    for (const Index i : entry.theirs) check.against.push_back(id(i));
    check.note +=
        fmt::format("{}best: {} against {}", check.note.empty() ? "" : "; ", id(subjects[0]), id(subjects[1]));
    for (const auto& side : {entry.ours, entry.theirs}) {
      for (const Index i : side) {
        if (!measured_[i].why.empty()) check.note += fmt::format("; without {}: {}", id(i), measured_[i].why);
      }
    }
  }
  // A path that breaks is no missing path: it must not pass for want of samples, or because another one is as fast.
  const auto has_failed = [this](Index i) { return measured_[i].has_failed && !is_of_others(measured_[i]); };
  // What is left of the others may not be their best.
  const auto has_broken = [this](Index i) { return measured_[i].has_failed && is_of_others(measured_[i]); };
  if (std::ranges::any_of(subjects, has_failed) || std::ranges::any_of(entry.ours, has_failed)) {
    check.verdict = BoundVerdict::kFail;
    if (!contest.why.empty()) check.note = contest.why;
  } else if (std::ranges::any_of(entry.theirs, has_broken) && contest.verdict != BoundVerdict::kFail) {
    check.verdict = std::nullopt;
  } else if (contest.why.empty() || contest.verdict != BoundVerdict::kUndecided) {
    check.verdict = contest.verdict;
  } else {
    check.note = contest.why;
  }
  checks_.push_back(std::move(check));
}

void CheckGroup::finish(const GroupDone& done) {
  done(workloads_, measured_, checks_);
  measured_.clear();
  place_.clear();
}

Workload large_tensors(const CheckOptions& options, std::string_view io) {
  const std::size_t count = options.large_tensors;
  return even_workload(path_traits(io).bypasses_cache ? 2 * count : count, options.scale_bytes / count);
}
Workload written_tensors(const CheckOptions& options, std::string_view io) {
  const std::size_t count = options.large_tensors;
  return even_workload(path_traits(io).bypasses_cache ? 4 * count : count, options.scale_bytes / (2 * count));
}

Cache cache_for(std::string_view io) { return path_traits(io).bypasses_cache ? Cache::kDirect : Cache::kWarm; }

std::vector<std::string> host_paths() {
  std::vector<std::string> names;
  for (const IoPath& path : io_paths()) {
    if (!path.traits.moves_device_memory && !path.traits.is_remote) names.emplace_back(path.name);
  }
  return names;
}

std::vector<std::string> usual_paths() {
  std::vector<std::string> names = host_paths();
  std::erase_if(names, [](const std::string& io) {
    const PathTraits traits = path_traits(io);
    return traits.polls_submissions || traits.drops_pages;
  });
  return names;
}

Peers start_peers(std::string_view name, std::string& why) {
  Peers peers;
  for (const Pages pages : {Pages::kHuge, Pages::kSmall}) {
    auto peer = start_peer(name, installation_prefix(), pages, why);
    if (!peer) return {};
    peers.push_back(std::move(peer));
  }
  return peers;
}

std::vector<std::size_t> peer_reads(CheckGroup& group, const SharedContent& content, const Peers& peers,
                                    const FileFormat& stored, PeerRun reading) {
  std::vector<std::size_t> reads;
  for (const std::optional<unsigned> readers :
       {std::optional<unsigned>(), std::optional(1U), std::optional(2U), std::optional(4U)}) {
    if (reading.operation == FileOperation::kOpen && readers) continue;
    reading.readers = readers;
    for (const auto& peer : peers) reads.push_back(group.add(peer_run(group.place(), content, peer, stored, reading)));
  }
  return reads;
}

}  // namespace tzmark::bench
