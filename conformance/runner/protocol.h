// The adapter protocol as the runner understands it: an adapter's profile, and its answer to one command.
// PROTOCOL.md is the text for people who write adapters; what is said there is checked here.
//
// Thread-safety: pure functions and values.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runner/json.h"
#include "runner/process.h"

namespace tzmark::conformance {

enum class Command { kDecode, kVerify, kStream, kEncode };

// As it stands on the adapter's command line, "decode".
std::string_view name_of(Command command);

// Whether an acceptance says what is in the file.
constexpr bool gives_content(Command command) { return command == Command::kDecode || command == Command::kStream; }

// What it can do in one direction.
struct Abilities {
  std::set<std::string> layouts;
  std::set<std::string> lacks;             // features that it does not have
  std::set<std::string> omits;             // members of canonical JSON that it does not know of
  std::set<std::string> input_modes = {};  // that a reader takes FILE in, besides those that every reader does
};

// What the implementation under test says that it can do.
struct Profile {
  std::string name;
  std::string version;
  Abilities reads;
  Abilities writes;
  std::set<std::string> commands;  // that it has, besides capabilities
  Json document;                   // as printed

  bool has(Command command) const { return commands.contains(std::string(name_of(command))); }
  bool reads_anything() const { return has(Command::kDecode) || has(Command::kVerify) || has(Command::kStream); }
  bool serves() const { return commands.contains("serve"); }
  const Abilities& abilities(Command command) const { return command == Command::kEncode ? writes : reads; }
};

// Reads a profile. Throws EnvironmentError with what is wrong with it.
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
  kNone,  // the process did not answer: it crashed, ran into a limit, or printed something else
};

std::string_view name_of(AnswerKind kind);

struct Answer {
  AnswerKind kind = AnswerKind::kNone;
  Json document;        // of kAccepted: what was decoded
  Rejection rejection;  // of kRejected
  std::string text;     // of kUnsupported: why; of kNone: what happened instead of an answer
  bool caught = false;  // of kNone: the adapter itself said that it crashed, and goes on
};

// The answer of a process that was started for this one question.
Answer read_answer(Command command, const ProcessResult& process);

// Why a process gave no answer, for every end but those after which there may be one.
Answer describe_end(const ProcessResult& process);

// The answer of a process that serves, to the request of that id.
Answer read_served_answer(Command command, std::uint64_t id, const ProcessResult& process);

// The same answer line with a profile in it; throws EnvironmentError as parse_profile does.
Profile read_served_profile(std::uint64_t id, const ProcessResult& process);

}  // namespace tzmark::conformance
