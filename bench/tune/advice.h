// What to change in a machine so that its storage moves model files faster.
//
// Each piece of advice rests on a fact of the probe that is not as advised; an unknown fact gives none. Nothing is
// changed here, and nothing survives a reboot unless the text says so. Thread-safe; throws only std::bad_alloc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tune/probe.h"
#include "tune/setting.h"

namespace tzmark::bench {

// Two settings whose ratio of rates (with over without) is the effect of an advice, measured without root.
struct Trial {
  Setting without, with;

  friend bool operator==(const Trial&, const Trial&) = default;
};

struct Advice {
  std::string task;                         // which gains: "load-warm", "load-cold", "save"
  std::string what;                         // one sentence in the imperative
  std::string why;                          // with the fact as found
  std::optional<std::string> command = {};  // for a shell; none where a program must be changed instead
  bool needs_root = false;
  std::optional<Trial> trial = {};  // none: the effect shows only after the change
};

// The answer of the search for one task.
struct TaskAnswer {
  std::string task;  // "load-warm", "load-cold", "save"
  Setting recommended;
  std::uint64_t bytes = 0;              // of the workload
  std::vector<std::string> paths = {};  // of the registry, which this machine can use for the task
};

// Advice for these tasks, by task and then the more important first.
std::vector<Advice> advise(const Probe& probe, std::span<const TaskAnswer> answers);

}  // namespace tzmark::bench
