// Judges what an adapter answered for a case. Nothing here runs or reads anything.
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
  kAcceptedInvalid,
  kRejectedValid,
  kPass,
  kImplementationDefined,  // passes as well: the case leaves a choice
  kSkipped,
};
inline constexpr std::size_t kOutcomeCount = 11;

// As reports spell it, "accepted-invalid".
std::string_view name_of(Outcome outcome);

// Of a process that gave no answer.
Outcome outcome_without_answer(ProcessEnd end);

inline bool is_failure(Outcome outcome) { return outcome < Outcome::kPass; }

// Where a failure shows in a file, as the model of the format sees it.
struct Explanation {
  std::string rule;  // empty if no rule is known
  std::optional<std::uint64_t> offset;
  std::string message;
  std::vector<model::Annotated> bytes;
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
  std::uint64_t number = 0;  // of the question, among all that its adapter was asked
  ProcessResult process;
  Answer answer;
  Outcome outcome = Outcome::kSkipped;
  std::string reason;                      // one line; empty for a pass
  std::optional<Difference> difference;    // of wrong data
  std::optional<Explanation> explanation;  // of failures, where there is something to show
  std::optional<WrittenFile> written;      // of encode
  std::string untried;                     // why a pass says nothing of the input mode; empty if it does
  bool cites_other_rule = false;           // refused as it should, but for a rule that is not among the case's
};

// Fills the judgement of a step whose command, process and answer are set.
void judge_step(const Case& item, const std::optional<Json>& expected, const Profile& profile, Step& step);

// Makes a failure of a step that changed or removed the file that it was asked about.
void judge_changed_file(Step& step);

// Makes a crash of a step whose process answered and then ended in another way than with exit status 0.
void judge_end_after_answer(const ProcessResult& end, Step& step);

// The same as judge_step for encode. written describes the file that was written; nothing if there is none.
void judge_encode_step(const Case& item, const std::optional<Json>& expected, const Profile& profile,
                       const model::Description* written, Step& step);

// Why the profile excuses the adapter from this case; nothing if it does not.
std::optional<std::string> excuse(const Case& item, const Profile& profile);

// A right file in a layout that the reader does not know, of a data version that it does, as the case that it is asked
// about; nothing for all other cases. Nothing in the file header may tell the reader so: it may refuse the file or read
// it as it is, and must not read it as another layout.
std::optional<Case> as_other_layout(const Case& item, const Profile& profile);

struct CaseJudgement {
  Outcome outcome = Outcome::kSkipped;
  std::string reason;  // that of the step which decided; empty for a pass
};

// The worst of the steps. A case of which the adapter left a part out is skipped, not passed, if the rest passed.
CaseJudgement judge_case(const Case& item, const std::vector<Step>& steps);

}  // namespace tzmark::conformance
