// Judges what an adapter answered for a case. Nothing here runs or reads anything.
//
// Thread-safety: pure functions and values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "canonical.h"
#include "manifest.h"
#include "protocol.h"

namespace tzmark::conformance {

// Worst first.
enum class Outcome {
  kWrongData,
  kCrash,
  kHang,
  kMemory,
  kAcceptedInvalid,
  kRejectedValid,
  kPass,
  kSkipped,
};
inline constexpr std::size_t kOutcomeCount = 8;

// As reports spell it, "accepted-invalid".
std::string_view name_of(Outcome outcome);

inline bool is_failure(Outcome outcome) { return outcome < Outcome::kPass; }

// One command run for one case.
struct Step {
  Command command = Command::kDecode;
  ProcessResult process;
  Answer answer;
  Outcome outcome = Outcome::kSkipped;
  std::string reason;                    // one line; empty for a pass
  std::optional<Difference> difference;  // of wrong data
  bool cites_other_rule = false;         // refused as it should, but for a rule that is not among the case's
};

// Fills the judgement of a step whose command, process and answer are set.
void judge_step(const Case& item, const std::optional<Json>& expected, const Profile& profile, Step& step);

// Why the profile excuses the adapter from this case; nothing if it does not.
std::optional<std::string> excuse(const Case& item, const Profile& profile);

struct CaseJudgement {
  Outcome outcome = Outcome::kSkipped;
  std::string reason;  // that of the step which decided; empty for a pass
};

// The worst of the steps, skipped ones aside. A file whose integrity is wrong is only judged by a reader that verifies.
CaseJudgement judge_case(const Case& item, const std::vector<Step>& steps);

}  // namespace tzmark::conformance
