// Making the states of a disk and judging them.
#include "testing/disk/power_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <unordered_map>

#include "testing/disk/crash_model.h"
#include "testing/disk/file_pool.h"
#include "testing/disk/trace.h"
#include "testing/files/test_directory.h"

namespace tzmark::test {
namespace {

// Names of temporary files end in random digits.
std::string without_random_parts(std::string text) {
  for (const std::string_view mark : {"tmp-", "grow-"}) {
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
      at += mark.size();
      const std::size_t end = std::min(text.find_first_not_of("0123456789abcdef", at), text.size());
      if (end > at) text.replace(at, end - at, "*");
    }
  }
  return text;
}

constexpr unsigned kFixedStates = static_cast<unsigned>(Survival::kSome);

class Run {
 public:
  explicit Run(const PowerLossScenario& scenario) : scenario_(scenario) {
    std::filesystem::create_directory(files_);
    std::filesystem::create_directory(directory_ / "pool");
    scenario.prepare(files_);
    trace_ = record_disk(
        files_, pool_, [&] { scenario.change(files_); }, scenario.hook);
    require_complete();
  }

  PowerLossReport report() {
    PowerLossReport report;
    go_through(nullptr, scenario_.random_states, [&](const DiskEvent* last, const std::string& wrong) {
      if (!wrong.empty()) report.bad.insert(plain(wrong + ", after: " + (last == nullptr ? "nothing" : last->what)));
      return false;
    });
    report.states = verdicts_.size();
    for (const DiskEvent& event : trace_.events) {
      if (!event.is_sync()) continue;
      ++report.syncs;
      if (!scenario_.leaves_out_syncs) continue;
      const bool is_noticed = go_through(&event, scenario_.random_states / 8,
                                         [](const DiskEvent*, const std::string& wrong) { return !wrong.empty(); });
      if (!is_noticed) report.unnoticed_syncs.push_back(plain(event.what));
    }
    return report;
  }

 private:
  // What was recorded has to lead to what is there.
  void require_complete() {
    CrashModel model(trace_);
    for (const DiskEvent& event : trace_.events) model.apply(event);
    std::map<std::string, Bytes> end;
    for (const DiskState::Entry& entry : model.state(Survival::kAll, random_).entries) {
      if (entry.content) end[entry.path] = *entry.content;
    }
    if (end != trace_.end) throw std::logic_error("the recording is not complete");
  }

  // Visits the states after each event until the visitor returns true, and returns whether it did.
  template <typename Visitor>
  bool go_through(const DiskEvent* left_out, unsigned random_states, Visitor&& visit) {
    CrashModel model(trace_);
    const DiskEvent* last = nullptr;
    bool is_reached = left_out == nullptr;  // before that, the states are those of the whole trace
    for (std::size_t i = 0; i <= trace_.events.size(); ++i) {
      const bool is_finished = i == trace_.events.size();
      const bool is_known = scenario_.only_after_failure && i <= trace_.events_before_failure.value_or(0);
      const unsigned states = !is_reached || (is_known && !is_finished) ? 0
                              : model.is_durable()                      ? 1
                                                                        : kFixedStates + random_states;
      for (unsigned state = 0; state < states; ++state) {
        const Survival survival = state < kFixedStates ? Survival(state) : Survival::kSome;
        if (visit(last, judge(model.state(survival, random_), is_finished))) return true;
      }
      if (is_finished) break;
      const DiskEvent& event = trace_.events[i];
      if (&event == left_out) {
        model.leave_out(event);
        is_reached = true;
        continue;
      }
      model.apply(event);
      last = &event;
    }
    return false;
  }

  // A lock file may stay: no process holds it after a loss of power, and the next process takes it over.
  bool has_final_names(const DiskState& state) const {
    const auto is_lock = [](const DiskState::Entry& entry) {
      return std::filesystem::path(entry.path).filename() == ".tzmark-lock";
    };
    const auto is_final = [&](const DiskState::Entry& entry) {
      return !entry.content || is_lock(entry) || trace_.end.contains(entry.path);
    };
    const auto files = std::ranges::count_if(
        state.entries, [&](const auto& entry) { return entry.content.has_value() && !is_lock(entry); });
    return std::ranges::all_of(state.entries, is_final) && static_cast<std::size_t>(files) == trace_.end.size();
  }

  const std::string& judge(const DiskState& state, bool is_finished) {
    const auto [verdict, is_new] =
        verdicts_.try_emplace(state.hash() * 4 + (state.has_partial_insertion ? 2 : 0) + (is_finished ? 1 : 0));
    if (!is_new) return verdict->second;
    if (is_finished && scenario_.makes_names_durable && !has_final_names(state))
      return verdict->second = "the change has returned, and names are not durable";
    state.make(files_, pool_);
    verdict->second = scenario_.judge(files_, {is_finished, state.has_partial_insertion});
    pool_.take_back(files_);
    return verdict->second;
  }

  std::string plain(const std::string& what) const {
    std::string text = without_random_parts(what);
    for (std::size_t at = 0; (at = text.find(files_, at)) != std::string::npos;) {
      text.replace(at, files_.size(), text.substr(at + files_.size(), 1) == "/" ? "" : "directory");
    }
    return text;
  }

  const PowerLossScenario& scenario_;
  const TestDirectory directory_{fastest_directory()};
  const std::string files_ = directory_ / "files";
  FilePool pool_{directory_ / "pool"};
  std::mt19937_64 random_{1};
  DiskTrace trace_;
  std::unordered_map<std::uint64_t, std::string> verdicts_;
};

}  // namespace

std::filesystem::path fastest_directory() {
  constexpr const char* kMemory = "/dev/shm";
  const bool is_usable =
      std::filesystem::is_directory(kMemory) && std::filesystem::space(kMemory).available > (64 << 20);
  return is_usable ? kMemory : std::filesystem::temp_directory_path();
}

PowerLossReport lose_power(const PowerLossScenario& scenario) { return Run(scenario).report(); }

void expect_safe(const PowerLossScenario& scenario, std::size_t states_min,
                 const std::vector<std::string>& unnoticed_syncs) {
  const PowerLossReport report = lose_power(scenario);
  std::cout << report.states << " states, " << report.syncs << " syncs\n";
  EXPECT_THAT(report.bad, ::testing::IsEmpty());
  EXPECT_GE(report.states, states_min);
  EXPECT_EQ(report.unnoticed_syncs, unnoticed_syncs);
}

}  // namespace tzmark::test
