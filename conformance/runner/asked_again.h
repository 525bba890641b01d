// Asks again in a fresh process what a process that serves failed on. If the fresh one passes, the failure depends on
// earlier questions; finds a short sequence of them.
//
// Thread-safety: one AskedAgain belongs to one thread; its budget may belong to several.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "runner/adapter.h"
#include "runner/encode_case.h"
#include "runner/manifest.h"
#include "runner/stage.h"
#include "runner/staged_file.h"

namespace tzmark::conformance {

// What a run may spend on it, on all threads together. What is not asked again for lack of it, is marked so.
struct AskedAgainBudget {
  explicit AskedAgainBudget(std::chrono::nanoseconds fresh_max, std::chrono::nanoseconds search_max)
      : fresh_left_ns(fresh_max.count()), search_left_ns(search_max.count()) {}

  std::atomic<std::int64_t> fresh_left_ns;   // for one more question each
  std::atomic<std::int64_t> search_left_ns;  // for sequences
};

class AskedAgain {
 public:
  // Asks and judges the question of a step once more, and records nonces and salts there.
  using Ask = std::function<Step(RandomValues& random_values)>;

  // Everything has to outlive the object. With secrets_are_public, command lines may have keys and passphrases in them.
  AskedAgain(const Manifest& manifest, const Adapter& adapter, const LimitOverrides& limits, Stage& stage,
             AskedAgainBudget& budget, bool secrets_are_public)
      : manifest_(manifest),
        adapter_(adapter),
        limits_(limits),
        stage_(stage),
        budget_(budget),
        secrets_are_public_(secrets_are_public) {}

  // Notes a question that this thread asked about a case, which has to outlive the object. Examines the step if it
  // failed: fills fails_afresh and only_after, and completes the reason. Earlier questions are asked about the file
  // that is staged for this one, which has its content again afterwards: an adapter may remember a path, or an inode.
  // Throws EnvironmentError as Adapter::ask does.
  void examine(const Case& item, Step& step, RandomValues& random_values, StagedFile* staged, const Ask& ask);

 private:
  struct Asked {
    const Case* item;
    Command command;
    InputMode mode;
    std::uint64_t service;
  };

  void note(const Case& item, const Step& step);
  Step repeat(const Asked& asked, StagedFile* staged, RandomValues& random_values);
  OnlyAfterEarlier find_sequence(const std::vector<Asked>& earlier, const Case& item, const Step& step,
                                 StagedFile* staged, const Ask& ask);
  std::string repeat_command(const std::vector<Asked>& questions) const;

  const Manifest& manifest_;
  const Adapter& adapter_;
  const LimitOverrides& limits_;
  Stage& stage_;
  AskedAgainBudget& budget_;
  bool secrets_are_public_;
  std::vector<Asked> asked_;  // of processes that serve
};

// The question of a command about a case, whose file is at this place.
Question question_of(std::filesystem::path file, const Case& item, Command command);

// The end of the name under which the file of a case is asked about.
std::string_view suffix_of(const Case& item);

}  // namespace tzmark::conformance
