// Any bytes as what an adapter prints: an answer, an answer of a process that serves, a profile.
#include <cstdint>
#include <string>

#include "expect.h"
#include "runner/errors.h"
#include "runner/protocol.h"

namespace {

using namespace tzmark::conformance;

// Throws nothing: what an adapter prints is never the fault of the machine.
void check(const Answer& answer, Command command) {
  if (answer.kind == AnswerKind::kNone) tzmark::fuzz::expect(!answer.text.empty(), "no answer has a reason");
  if (answer.kind != AnswerKind::kAccepted || !gives_content(command)) return;
  tzmark::fuzz::expect(answer.document.is_object(), "content is an object");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ProcessResult process;
  process.stdout_text.assign(reinterpret_cast<const char*>(data), size);
  process.stderr_tail = process.stdout_text;
  for (const Command command : {Command::kDecode, Command::kVerify, Command::kStream, Command::kEncode}) {
    process.end = ProcessEnd::kExited;
    for (process.exit_status = 0; process.exit_status < 4; ++process.exit_status) {
      check(read_answer(command, process), command);
    }
    process.end = ProcessEnd::kAnswered;
    check(read_served_answer(command, 7, process), command);
  }
  try {
    const Profile profile = parse_profile(process.stdout_text);
    tzmark::fuzz::expect(profile_of(profile.document).name == profile.name, "a profile is what it says");
  } catch (const EnvironmentError&) {
  }
  return 0;
}
