// Parses and checks the adapter protocol of PROTOCOL.md: the profile of an adapter, and its answers.
//
// Thread-safety: pure functions and values.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "runner/json.h"
#include "runner/process.h"

namespace tzmark::conformance {

enum class Command { kDecode, kVerify, kStream, kEncode };

// The name on the command line of adapters, such as "decode".
std::string_view name_of(Command command);

// Whether an acceptance says what is in the file.
constexpr bool gives_content(Command command) { return command == Command::kDecode || command == Command::kStream; }

// What an implementation can do in one direction.
struct Abilities {
  std::set<std::string> layouts;
  std::set<std::string> lacks;             // features that it lacks
  std::set<std::string> omits;             // members of canonical JSON that it does not print
  std::set<std::string> input_modes = {};  // that a reader supports, besides those that every reader does
};

// What the implementation under test claims to do.
struct Profile {
  std::string name;  // one line each, for reports
  std::string version;
  Abilities reads;
  Abilities writes;
  std::set<std::string> commands;  // besides capabilities
  Json document;                   // as printed

  bool has(Command command) const { return commands.contains(std::string(name_of(command))); }
  bool reads_anything() const { return has(Command::kDecode) || has(Command::kVerify) || has(Command::kStream); }
  bool serves() const { return commands.contains("serve"); }
  const Abilities& abilities(Command command) const { return command == Command::kEncode ? writes : reads; }
};

// The layouts that a profile and a case may name.
const std::set<std::string>& known_layouts();

// Reads a profile. Throws EnvironmentError with what is wrong with it.
Profile profile_of(const Json& document);
Profile parse_profile(std::string_view text);

struct Rejection {
  std::optional<std::string> rule;
  std::optional<std::uint64_t> offset;
  std::string message;
};

enum class AnswerKind {
  kAccepted,
  kRejected,
  kUnsupported,
  kNone,  // the process crashed, broke a limit, or printed something else
};

std::string_view name_of(AnswerKind kind);

// Returns the last line that is not blank, without blanks around it.
std::string_view last_line(std::string_view text);

struct Answer {
  AnswerKind kind = AnswerKind::kNone;
  Json document;        // of kAccepted: the decoded content
  Rejection rejection;  // of kRejected
  std::string text;     // of kUnsupported: why; of kNone: what happened instead
  bool caught = false;  // of kNone: the adapter reported its own crash and continues
};

// The answer of a process that was started for this one question.
Answer read_answer(Command command, const ProcessResult& process);

// Describes an end without an answer.
Answer describe_end(const ProcessResult& process);

// The answer of a process that serves, to the request of that id.
Answer read_served_answer(Command command, std::uint64_t id, const ProcessResult& process);

// The same answer line with a profile in it; throws EnvironmentError as parse_profile does.
Profile read_served_profile(std::uint64_t id, const ProcessResult& process);

}  // namespace tzmark::conformance
