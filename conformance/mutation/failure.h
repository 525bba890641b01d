// Finds the failure of an implementation on a file, with the model as oracle, and recognizes the same failure on
// another file.
//
// Thread-safety: pure functions and values; find_failure may run in several threads, as Adapter::ask may.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/model.h"
#include "runner/adapter.h"
#include "runner/file_format.h"
#include "runner/judge.h"

namespace tzmark::conformance::mutation {

// The key or passphrase of a file.
struct FileSecret {
  std::optional<std::string> key_hex;
  std::optional<std::string> passphrase;
};

model::Secret to_model(const FileSecret& secret);

// Two failures are the same if command, outcome, rule and sign are, and the second file breaks no further rule.
struct Failure {
  Command command = Command::kDecode;
  Outcome outcome = Outcome::kPass;
  // The first rule for which this command must reject the file; empty if it must accept it.
  std::string rule;
  // What tells one failure of this outcome from another: of a refusal of a valid file the rule that it cites, or what
  // its message says before the first colon; of wrong data the member that differs, of whichever tensor; of a crash the
  // signal or the exception's type. Numbers and quoted words are left out. Empty for the other outcomes.
  std::string sign;
  std::set<std::string> broken;  // every rule for which a reader that verifies rejects the file
  std::string reason;            // one line for people
};

// A JSON pointer without the numbers in it: "/tensors/shape" of "/tensors/3/shape/0".
std::string member_of(const std::string& pointer);

bool is_same_reason(const Failure& a, const Failure& b);

// Asks those of the commands that the profile has, and returns the worst failure, if any. A failure that the profile
// excuses does not count. Throws EnvironmentError as Adapter::ask does, and std::runtime_error where the machine fails.
std::optional<Failure> find_failure(const Adapter& adapter, const FileFormat& format, model::Bytes file,
                                    const FileSecret& secret, const std::vector<Command>& commands,
                                    const LimitOverrides& limits = {});

// Whether the adapter still fails on a file for the reason given. Asks the adapter only if the model's view allows it.
bool fails_alike(const Adapter& adapter, const FileFormat& format, model::Bytes file, const FileSecret& secret,
                 const Failure& failure, const LimitOverrides& limits = {});

}  // namespace tzmark::conformance::mutation
