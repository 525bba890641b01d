// Input modes; see input_mode.h.
#include "runner/input_mode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <sstream>

#include "runner/errors.h"

namespace tzmark::conformance {
namespace {

constexpr std::array<std::string_view, kInputModeCount> kNames = {"file",   "pipe", "short-reads", "read-only",
                                                                  "offset", "http", "http-faults"};

// Whether only profiles that list this mode are asked in it.
bool needs_claim(InputMode mode) { return mode == InputMode::kPipe || mode == InputMode::kOffset || is_served(mode); }

// stream reads from a pipe anyway, and never a range of a file or a URL.
bool is_streamed(InputMode mode) {
  return mode == InputMode::kFile || mode == InputMode::kPipe || mode == InputMode::kShortReads;
}

}  // namespace

std::string_view name_of(InputMode mode) { return kNames[static_cast<std::size_t>(mode)]; }

std::string input_mode_names() { return fmt::format("{}", fmt::join(kNames, ", ")); }

std::set<std::string> claimed_input_modes() {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kInputModeCount; ++i) {
    if (needs_claim(static_cast<InputMode>(i))) names.emplace(kNames[i]);
  }
  return names;
}

std::vector<InputMode> parse_input_modes(const std::string& names) {
  std::set<InputMode> wanted;
  std::istringstream words(names);
  for (std::string word; std::getline(words, word, ',');) {
    const auto* const found = std::ranges::find(kNames, word);
    if (found == kNames.end()) {
      throw UsageError(fmt::format("there is no input mode '{}'; the modes are {}", word, input_mode_names()));
    }
    wanted.insert(static_cast<InputMode>(found - kNames.begin()));
  }
  if (wanted.empty()) throw UsageError("the list of input modes is empty");
  return {wanted.begin(), wanted.end()};
}

std::vector<Command> commands_in(InputMode mode, const Profile& profile) {
  const bool takes_file = !needs_claim(mode) || profile.reads.input_modes.contains(std::string(name_of(mode)));
  std::vector<Command> commands;
  for (const Command command : {Command::kDecode, Command::kVerify}) {
    if (takes_file && profile.has(command)) commands.push_back(command);
  }
  if (is_streamed(mode) && profile.has(Command::kStream)) commands.push_back(Command::kStream);
  return commands;
}

std::string absence(InputMode mode) {
  return needs_claim(mode) ? fmt::format("its profile does not have the input mode {}", name_of(mode))
                           : fmt::format("its profile has no command for the input mode {}", name_of(mode));
}

std::optional<InputMode> sample(const std::vector<InputMode>& modes, const Profile& profile, std::string_view sha256) {
  std::vector<InputMode> supported;
  std::ranges::copy_if(modes, std::back_inserter(supported),
                       [&](InputMode mode) { return !commands_in(mode, profile).empty(); });
  if (supported.empty()) return std::nullopt;
  std::size_t sum = 0;
  for (const char digit : sha256) sum += static_cast<unsigned char>(digit);
  return supported[sum % supported.size()];
}

std::string label(Command command, InputMode mode) {
  return mode == InputMode::kFile ? std::string(name_of(command))
                                  : fmt::format("{} ({})", name_of(command), name_of(mode));
}

}  // namespace tzmark::conformance
