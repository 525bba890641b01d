// Two implementations on the same files: where they behave differently, grouped, with the smallest file of each group.
//
// Which of the two is right is not asked; the model only says what is wrong with a file, so that differences for the
// same thing come together.
//
// Thread-safety: compare() starts and ends threads of its own; `next` and `progress` are called by one at a time.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mutation/failure.h"

namespace tzmark::conformance::mutation {

struct ComparedFile {
  std::string id;
  std::vector<std::byte> bytes;
  FileSecret secret;
};

// What both did when they were asked for one command.
struct AnswerPair {
  Command command = Command::kDecode;
  // "accepted", "rejected", "unsupported", or the outcome that is no answer: "crash", "hang", "memory", "output".
  std::string first;
  std::string second;
  // Where both accepted, the member of their documents that differs; where both rejected, the rules that they cite.
  std::string sign;

  bool operator==(const AnswerPair&) const = default;
};

// What makes two differences one: the commands that differ and how, and the first rule that the model finds broken.
struct Behaviour {
  std::vector<AnswerPair> pairs;  // those that differ
  std::string rule;               // empty if the file breaks none that a reader minds

  bool operator==(const Behaviour&) const = default;
};

// "decode: accepted, rejected; verify: accepted, crash"
std::string describe(const Behaviour& behaviour);

struct DifferenceGroup {
  Behaviour behaviour;
  std::vector<std::string> ids;  // of all subjects that differ so, in their order
  ComparedFile smallest;         // of them, shrunk
  std::string first_says;        // about the smallest, one line each; empty where it accepts
  std::string second_says;
  bool finished = false;  // nothing more can go
};

struct AgainstOptions {
  unsigned jobs = 1;
  AskLimits limits;
  bool compare_rules = false;                                               // which rule a refusal cites counts, too
  std::chrono::nanoseconds minimize_elapsed_max = std::chrono::minutes(1);  // a group
};

struct Comparison {
  std::size_t compared = 0;
  std::size_t excused = 0;  // files that one of the two says it does not read
  std::size_t differing = 0;
  std::vector<DifferenceGroup> groups;  // the largest first
};

// next() gives subjects until there are none. Progress is called after each one and after each group. Throws as
// find_failure does; if cancelled becomes true the result has what was found until then, without shrinking.
Comparison compare(const Adapter& first, const Adapter& second,
                   const std::function<std::optional<ComparedFile>()>& next, const AgainstOptions& options,
                   const std::atomic<bool>& cancelled, const std::function<void(std::size_t done)>& progress);

}  // namespace tzmark::conformance::mutation
