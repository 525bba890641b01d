// Compares two implementations on the same files, and groups their differences, each with its smallest file.
// It does not decide which of the two is right. The model only says which rule a file breaks first, so that differences
// with the same cause form one group.
//
// Thread-safety: compare() starts and ends threads of its own; `next` and `progress` are called by one at a time.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mutation/failure.h"
#include "runner/stage.h"

namespace tzmark::conformance::mutation {

struct ComparedFile {
  std::string id;
  const FileFormat* format = nullptr;
  std::vector<std::byte> bytes;
  FileSecret secret;
};

// The answers of both to one command.
struct AnswerPair {
  Command command = Command::kDecode;
  InputMode mode = InputMode::kFile;
  // "accepted", "rejected", "unsupported", or the outcome that is no answer: "crash", "hang", "memory", "output".
  std::string first;
  std::string second;
  // If both accepted, the member of their documents that differs; if both rejected, the rules that they cite.
  std::string sign;

  bool operator==(const AnswerPair&) const = default;
};

// What the files of one group have in common: the commands that differ and how, and the first rule that the model finds
// broken.
struct Behaviour {
  std::vector<AnswerPair> pairs;  // those that differ
  std::string rule;               // empty if the file breaks none that readers check

  bool operator==(const Behaviour&) const = default;
};

// "decode: accepted, rejected; verify: accepted, crash"
std::string describe(const Behaviour& behaviour);

struct DifferenceGroup {
  Behaviour behaviour;
  std::vector<std::string> ids;  // of all files that differ so, in their order
  ComparedFile smallest;         // of them, minimized
  std::string first_says;        // about the smallest, one line each; empty if it accepts
  std::string second_says;
  bool finished = false;  // nothing more can be removed
};

struct AgainstOptions {
  unsigned jobs = 1;
  LimitOverrides limits;
  InputModeOptions input;
  bool compare_rules = false;                                               // rules that rejections cite count, too
  std::chrono::nanoseconds minimize_elapsed_max = std::chrono::minutes(1);  // per group
};

struct Comparison {
  std::size_t compared = 0;
  std::size_t excused = 0;  // files that one of the two does not read by its profile, in any of the input modes
  // Why an input mode could not be had for one of the two on some file; such answers are not compared.
  std::map<InputMode, std::string> untried;
  std::size_t differing = 0;
  std::vector<DifferenceGroup> groups;  // the largest first
};

// next() gives files until there are none. Calls progress after each file and each group. Throws as find_failure does.
// If cancelled becomes true, returns what it has found by then, not minimized.
Comparison compare(const Adapter& first, const Adapter& second,
                   const std::function<std::optional<ComparedFile>()>& next, const AgainstOptions& options,
                   const std::atomic<bool>& cancelled, const std::function<void(std::size_t done)>& progress);

}  // namespace tzmark::conformance::mutation
