// Parses command lines; see arguments.h.
#include "commands/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

#include "program/local_name.h"
#include "program/option_tree.h"
#include "program/suggestion.h"
#include "runner/console.h"
#include "runner/errors.h"

namespace tzmark::conformance {
namespace {

// The options of an app and of its subcommands.
std::vector<CLI::Option*> all_options(CLI::App& app) {
  std::vector<CLI::Option*> options = app.get_options();
  for (CLI::App* const below : app.get_subcommands(nullptr)) {
    const auto more = all_options(*below);
    options.insert(options.end(), more.begin(), more.end());
  }
  return options;
}

void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* const option : all_options(app)) {
    if (option->get_items_expected_max() == 0 || option->get_type_size_max() == 0) continue;
    // Before the other validators, whose messages for an empty value say less.
    option->transform(CLI::Validator(
        [](const std::string& value) { return std::string(value.empty() ? "the value is empty" : ""); }, ""));
  }
}

// For an option such as "--json=", CLI11 would take the next word.
void refuse_options_without_value(CLI::App& app, int argc, const char* const* argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    const std::string name(word.substr(0, word.size() - 1));
    for (const CLI::Option* const option : all_options(app)) {
      if (option->check_name(name)) throw UsageError(name + ": the value is empty");
    }
  }
}

// Names an unknown word, which CLI11 mentions only if nothing else is wrong; empty if there is none.
std::string unknown_word(const CLI::App& app) {
  std::vector<std::string> left = app.remaining(/*recurse=*/true);
  const auto parsed = app.get_subcommands();
  const CLI::App& command = parsed.empty() ? app : *parsed.back();
  // Words after it are not options, even with a dash.
  const auto end_of_options = std::ranges::find(left, "--");
  const auto option =
      std::find_if(left.begin(), end_of_options, [](const auto& word) { return word.size() > 1 && word[0] == '-'; });
  std::vector<std::string> names;
  if (option != end_of_options) {
    const std::string name = option->substr(0, option->find('='));
    for (const CLI::Option* const known : command.get_options()) {
      for (const std::string& long_name : known->get_lnames()) names.push_back("--" + long_name);
    }
    return fmt::format("unknown option '{}'{}", name, suggestion(name, names));
  }
  if (end_of_options != left.end()) left.erase(end_of_options);
  if (left.empty()) return "";
  for (const CLI::App* const known : command.get_subcommands(nullptr)) names.push_back(known->get_name());
  // A URL may contain a password.
  if (!why_not_local(left.front()).empty()) return "a URL is given, but no argument of that kind is expected";
  if (names.empty()) return fmt::format("one argument too many: '{}'", left.front());
  return fmt::format("unknown command '{}'{}", left.front(), suggestion(left.front(), names));
}

}  // namespace

bool parse(CLI::App& app, int argc, const char* const* argv) {
  if (const auto tree = asked_option_tree(app, argc, argv)) {
    print_text(*tree);
    return false;
  }
  refuse_empty_values(app);
  refuse_options_without_value(app, argc, argv);
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::ParseError& error) {
    std::ostringstream help, ignored;
    if (app.exit(error, help, ignored) != 0) {
      const std::string unknown = unknown_word(app);
      throw UsageError(unknown.empty() ? error.what() : unknown);
    }
    print_text(help.str());
    return false;
  }
}

}  // namespace tzmark::conformance
