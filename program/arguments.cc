// Parsing of command lines, and messages about mistakes in them.
#include "program/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "program/option_tree.h"
#include "tzmark/io.h"

namespace tzmark {
namespace {

constexpr const char* kMayBeEmpty = "may be empty";

bool may_be_empty(CLI::Option& option) {
  try {
    return option.get_validator(kMayBeEmpty) != nullptr;
  } catch (const CLI::OptionNotFound&) {
    return false;
  }
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0 && option.get_type_size_max() > 0;
}

template <typename Action>
void for_each_app(CLI::App& app, Action&& action) {
  action(app);
  for (CLI::App* const below : app.get_subcommands(nullptr)) for_each_app(*below, action);
}

void refuse_empty_values(CLI::App& app) {
  for_each_app(app, [](CLI::App& each) {
    for (CLI::Option* const option : each.get_options()) {
      if (!takes_value(*option) || may_be_empty(*option)) continue;
      // Runs before the other checks, whose messages say less.
      option->transform(CLI::Validator(
          [](const std::string& value) { return std::string(value.empty() ? "the value is empty" : ""); }, ""));
    }
  });
}

// Finds an option written as "--io=", for which CLI11 would take the next word as its value.
std::optional<std::string> option_without_value(CLI::App& app, int argc, const char* const* argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    const std::string name(word.substr(0, word.size() - 1));
    bool is_known = false;
    for_each_app(app, [&](CLI::App& each) { is_known = is_known || each.get_option_no_throw(name) != nullptr; });
    if (is_known) return name;
  }
  return std::nullopt;
}

// Counts the letters to insert, delete, replace, or swap with their neighbor.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  std::iota(rows[0].begin(), rows[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    rows[i][0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = rows[i - 1][j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0);
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

// Returns "; did you mean 'verify'?" if one of the names is close enough.
std::string suggestion(std::string_view word, const std::vector<std::string>& names) {
  constexpr std::size_t kWordBytesMax = 64;
  if (word.size() > kWordBytesMax) return {};
  std::size_t nearest = word.size() / 3 + 2;
  std::string found;
  for (const std::string& name : names) {
    const std::size_t away = distance(word, name);
    if (away >= nearest) continue;
    nearest = away;
    found = name;
  }
  return found.empty() ? "" : fmt::format("; did you mean '{}'?", found);
}

// Returns the last subcommand that was parsed.
const CLI::App& innermost(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.back());
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const command : app.get_subcommands(nullptr)) {
    if (!command->get_name().empty()) names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Reports unknown words, which CLI11 mentions only if nothing else is wrong.
std::optional<std::string> unknown_word(const CLI::App& app) {
  const CLI::App& command = innermost(app);
  std::vector<std::string> left = app.remaining(/*recurse=*/true);
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word.starts_with('-'); };
  // Words after it are not options, whatever they look like.
  const auto end_of_options = std::ranges::find(left, "--");
  if (const auto option = std::find_if(left.begin(), end_of_options, is_option); option != end_of_options) {
    const std::string name = option->substr(0, option->find('='));
    return fmt::format("unknown option '{}'{}", name, suggestion(name, option_names(command)));
  }
  if (end_of_options != left.end()) left.erase(end_of_options);
  if (left.empty()) return std::nullopt;
  const std::vector<std::string> commands = command_names(command);
  if (commands.empty()) return fmt::format("one argument too many: '{}'", display_name(left.front()));
  return fmt::format("unknown command '{}'{}", display_name(left.front()), suggestion(left.front(), commands));
}

std::string one_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

void accept_empty(CLI::Option& option) {
  option.check([](const std::string&) { return std::string(); }, "", kMayBeEmpty);
}

Parsed parse(CLI::App& app, int argc, const char* const* argv) {
  if (const auto tree = asked_option_tree(app, argc, argv)) return {false, *tree, ""};
  refuse_empty_values(app);
  if (const auto name = option_without_value(app, argc, argv)) {
    return {false, "", fmt::format("{}: the value is empty", *name)};
  }
  try {
    app.parse(argc, argv);
    return {true, "", ""};
  } catch (const CLI::ParseError& error) {
    std::ostringstream help, ignored;
    if (app.exit(error, help, ignored) == 0) return {false, help.str(), ""};
    return {false, "", unknown_word(app).value_or(one_line(error.what()))};
  }
}

}  // namespace tzmark
