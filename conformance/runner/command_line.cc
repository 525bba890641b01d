// Splits an adapter's command into words; see command_line.h.
#include "runner/command_line.h"

#include <wordexp.h>

#include <string_view>

#include "runner/errors.h"

namespace tzmark::conformance {
namespace {

const char* reason_of(int status) {
  switch (status) {
    case WRDE_BADCHAR:
      return "an unquoted newline or one of | & ; < > ( ) { }: put such commands into a script";
    case WRDE_BADVAL:
      return "an undefined variable";
    case WRDE_CMDSUB:
      return "command substitution";
    case WRDE_SYNTAX:
      return "an unclosed quote or another syntax error";
    default:
      return "not enough memory";
  }
}

}  // namespace

std::vector<std::string> split_command(const std::string& command) {
  if (command.find('\0') != std::string::npos) throw UsageError("adapter command: a NUL byte");
  wordexp_t words{};
  const int status = wordexp(command.c_str(), &words, WRDE_NOCMD | WRDE_UNDEF);
  if (status != 0) {
    // Only with this status does the call leave allocated memory.
    if (status == WRDE_NOSPACE) wordfree(&words);
    throw UsageError("adapter command '" + command + "': " + reason_of(status));
  }
  std::vector<std::string> argv(words.we_wordv, words.we_wordv + words.we_wordc);
  wordfree(&words);
  if (argv.empty()) throw UsageError("adapter command: empty");
  return argv;
}

std::string join_command(const std::vector<std::string>& words) {
  constexpr std::string_view kHarmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && word.find_first_not_of(kHarmless) == std::string::npos) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

}  // namespace tzmark::conformance
