// What an implementation does wrong with a file, as the suite judges it with the model as oracle, and when it does the
// same wrong with another.
//
// Thread-safety: pure functions and values; find_failure may run in several threads, as Adapter::ask may.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/model.h"
#include "runner/adapter.h"
#include "runner/judge.h"

namespace tzmark::conformance::mutation {

// What opens the file.
struct FileSecret {
  std::optional<std::string> key_hex;
  std::optional<std::string> passphrase;
};

model::Secret to_model(const FileSecret& secret);

// The same reason is: the same command, outcome, rule and sign, and no broken rule that the other file does not break.
struct Failure {
  Command command = Command::kDecode;
  Outcome outcome = Outcome::kPass;
  // The first for which this command has to refuse the file; empty if it has to take it.
  std::string rule;
  // What tells one failure of this outcome from another: of a refusal of a valid file the rule that it cites, or what
  // its message says before the first colon; of wrong data the member that differs, of whichever tensor; of a crash the
  // signal or the exception's type. Numbers and quoted words are left out. Empty for the other outcomes.
  std::string sign;
  std::set<std::string> broken;  // every rule for which a reader that verifies refuses the file
  std::string reason;            // one line for people
};

// A JSON pointer without the numbers in it: "/tensors/shape" of "/tensors/3/shape/0".
std::string member_of(const std::string& pointer);

bool is_same_reason(const Failure& a, const Failure& b);

struct AskLimits {
  std::optional<std::chrono::nanoseconds> elapsed_max;  // nothing: 10 s, and a second for every 10 MiB
  std::optional<std::uint64_t> memory_max_bytes;        // nothing: 64 MiB, and eight times the size of the file

  std::chrono::nanoseconds elapsed_for(std::uint64_t file_bytes) const;
  std::uint64_t memory_for(std::uint64_t file_bytes) const;
};

// Asks for the given commands, so far as the profile has them, and returns the worst failure; nothing if there is none.
// What the profile excuses the adapter from is none. Throws EnvironmentError as Adapter::ask does, and
// std::runtime_error where the machine fails.
std::optional<Failure> find_failure(const Adapter& adapter, model::Bytes file, const FileSecret& secret,
                                    const std::vector<Command>& commands, const AskLimits& limits = {});

// Whether the adapter still fails on a file for the reason given. Asks the adapter only if the model's view allows it.
bool fails_alike(const Adapter& adapter, model::Bytes file, const FileSecret& secret, const Failure& failure,
                 const AskLimits& limits = {});

}  // namespace tzmark::conformance::mutation
