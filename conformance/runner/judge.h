// Judges the answers of an adapter. Nothing here runs or reads anything.
//
// Thread-safety: pure functions and values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"
#include "runner/difference.h"
#include "runner/input_mode.h"
#include "runner/manifest.h"
#include "runner/protocol.h"

namespace tzmark::conformance {

// Worst first.
enum class Outcome {
  kWrongData,
  kCrash,
  kHang,
  kMemory,
  kOutput,
  kDisk,
  kProcesses,
  kAcceptedInvalid,
  kRejectedValid,
  kPass,
  kImplementationDefined,  // also a pass: the case leaves a choice
  kSkipped,
};
inline constexpr std::size_t kOutcomeCount = 12;

// The name in reports, such as "accepted-invalid".
std::string_view name_of(Outcome outcome);

// The outcome of a process that gave no answer.
Outcome outcome_without_answer(ProcessEnd end);

inline bool is_failure(Outcome outcome) { return outcome < Outcome::kPass; }

// Where a failure shows in a file, as the model of the format sees it.
struct Explanation {
  std::string rule;  // empty if no rule is known
  std::optional<std::uint64_t> offset;
  std::string message;
  std::vector<model::Annotated> bytes;
};

// A question that a process answered before the one that failed.
struct EarlierQuestion {
  std::string id;  // of the case
  Command command = Command::kDecode;
  InputMode mode = InputMode::kFile;
};

// A failure of a process that serves which a fresh process does not show.
struct OnlyAfterEarlier {
  std::size_t asked = 0;                   // questions that the process had answered by then
  std::vector<EarlierQuestion> questions;  // of these, a sequence after which it fails again; empty if it does not
  bool shortest = false;                   // no single question can be left out
  std::string repeat;                      // the command line that repeats it; empty if a shell is not enough
};

// A file that the implementation wrote.
struct WrittenFile {
  std::uint64_t size_bytes = 0;
  std::string sha256;
};

// One command run for one case, with its file in one input mode.
struct Step {
  Command command = Command::kDecode;
  InputMode mode = InputMode::kFile;
  std::uint64_t number = 0;              // of the question, among all that its adapter was asked
  std::optional<std::uint64_t> service;  // of the process that serves: its number, among those of its adapter
  ProcessResult process;
  Answer answer;
  Outcome outcome = Outcome::kSkipped;
  std::string reason;                          // one line; empty for a pass
  std::optional<Difference> difference;        // of wrong data
  std::optional<Explanation> explanation;      // of failures, where there is something to show
  std::optional<WrittenFile> written;          // of encode
  std::string served;                          // of a file that was served: how, and what was asked
  std::string untried;                         // why the input mode had no effect; empty if it had
  std::optional<bool> fails_afresh;            // of failures: whether a fresh process shows it, if one was asked
  std::optional<OnlyAfterEarlier> only_after;  // of failures that a fresh process does not show
  bool cites_other_rule = false;               // rejected correctly, but for a rule that is not one of the case's
  bool changed_file = false;                   // or removed it; of a writer, the specification or its data
};

// Fills the judgement of a step whose command, process and answer are set, and whether it changed its file.
void judge_step(const Case& item, const std::optional<Json>& expected, const Profile& profile, Step& step);

// Whether the program does not support the input mode, so that the step is inconclusive.
bool is_untried(const Step& step);

// Turns a step into a crash whose process answered and then ended other than with exit status 0.
void judge_end_after_answer(const ProcessResult& end, Step& step);

// judge_step for encode. written describes the written file; null if there is none.
void judge_encode_step(const Case& item, const std::optional<Json>& expected, const Profile& profile,
                       const model::Description* written, Step& step);

// The reason why the profile excuses the adapter from this case, if it does.
std::optional<std::string> excuse(const Case& item, const Profile& profile);

// The case to ask instead about a valid file in a layout that the reader does not know, of a data version that it
// knows; nothing for all other cases. The file header may not show the difference: the reader may reject the file or
// read it as it is, but not as another layout.
std::optional<Case> as_other_layout(const Case& item, const Profile& profile);

struct CaseJudgement {
  Outcome outcome = Outcome::kSkipped;
  std::string reason;  // of the deciding step; empty for a pass
};

// The worst of the steps. A case is skipped, not passed, if the adapter skipped one step and passed the others. Steps
// whose input mode could not be had do not count, unless there are no others.
CaseJudgement judge_case(const Case& item, const std::vector<Step>& steps);

}  // namespace tzmark::conformance
