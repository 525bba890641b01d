// See option_tree.h.
#include "program/option_tree.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string_view>

namespace tzmark {
namespace {

using Json = nlohmann::ordered_json;

Json describe(const CLI::Option& option) {
  Json names = Json::array();
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  if (names.empty()) names.push_back(option.get_name(true));
  const bool takes_value = option.get_items_expected_max() > 0 && option.get_type_size_max() > 0;
  constexpr int kManyMin = 1 << 20;
  const int values_max = option.get_items_expected_max();
  return {{"names", names},
          {"is_positional", option.get_positional()},
          {"value", takes_value ? option.get_type_name() : ""},
          {"values_max", values_max >= kManyMin ? -1 : values_max},
          {"default", takes_value ? option.get_default_str() : ""},
          {"text", option.get_description()},
          {"required", option.get_required()},
          {"group", option.get_group()}};
}

Json describe(const CLI::App& app) {
  Json options = Json::array(), commands = Json::array();
  for (const CLI::Option* const option : app.get_options()) {
    if (!option->get_group().empty()) options.push_back(describe(*option));
  }
  for (const CLI::App* const command : app.get_subcommands(nullptr)) {
    if (!command->get_group().empty()) commands.push_back(describe(*command));
  }
  return {{"name", app.get_name()},
          {"description", app.get_description()},
          {"footer", app.get_footer()},
          {"options", options},
          {"commands", commands}};
}

}  // namespace

std::optional<std::string> asked_option_tree(const CLI::App& app, int argc, const char* const* argv) {
  if (argc != 2 || std::string_view(argv[1]) != "--option-tree") return std::nullopt;
  return describe(app).dump(1) + "\n";
}

}  // namespace tzmark
