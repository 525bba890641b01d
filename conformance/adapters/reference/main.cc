// The reference codec behind the adapter protocol (conformance/PROTOCOL.md), in its one-shot form.
//
// Only a fault of the file is a rejection. When the environment fails or the call is wrong, the adapter says so on
// stderr and exits with a status that is no answer, so that the suite never takes it for a judgement of the file.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tzmark/canonical.h"
#include "tzmark/crypto.h"
#include "tzmark/error.h"
#include "tzmark/reader.h"
#include "tzmark/version.h"

namespace {

using Json = nlohmann::ordered_json;

constexpr int kRejectedStatus = 1;
constexpr int kUnsupportedStatus = 2;
constexpr int kNoAnswerStatus = 3;

struct KeyArguments {
  std::optional<std::string> key_file;
  std::optional<std::string> passphrase_file;
  std::optional<std::string> key_hex;
  std::optional<std::string> passphrase;
};

struct Arguments {
  std::string file;
  KeyArguments key;
};

void add_file_arguments(CLI::App& command, Arguments& arguments) {
  command.add_option("FILE", arguments.file)->required();
  CLI::Option_group& key = *command.add_option_group("key");
  key.add_option("--key-file", arguments.key.key_file, "32 raw bytes or 64 hexadecimal digits")->type_name("F");
  key.add_option("--passphrase-file", arguments.key.passphrase_file)->type_name("F");
  key.add_option("--key-hex", arguments.key.key_hex, "for tests: shows in the list of processes")->type_name("DIGITS");
  key.add_option("--passphrase", arguments.key.passphrase, "for tests: shows in the list of processes")
      ->type_name("TEXT");
  key.require_option(0, 1);
}

tzmark::ReadOptions read_options(const KeyArguments& key) {
  tzmark::ReadOptions options;
  if (key.key_file) options.key.emplace(tzmark::key_from_file(*key.key_file));
  if (key.passphrase_file) options.key.emplace(tzmark::passphrase_from_file(*key.passphrase_file));
  if (key.key_hex) options.key.emplace(tzmark::key_from_hex(*key.key_hex));
  if (key.passphrase) options.key.emplace(tzmark::Passphrase(*key.passphrase));
  return options;
}

void print(const Json& document) {
  // Names and messages may quote bytes of a hostile file.
  std::cout << document.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

Json layout_names() {
  Json names = Json::array();
  for (const tzmark::Layout layout : tzmark::kLayouts) names.push_back(tzmark::layout_name(layout));
  return names;
}

void print_capabilities() {
  print({{"protocol", 1},
         {"name", "tzmark reference"},
         {"version", tzmark::version()},
         {"commands", {"decode", "verify"}},
         {"reads", {{"layouts", layout_names()}}}});
}

int answer(const CLI::App& app, const Arguments& arguments) {
  if (app.got_subcommand("capabilities")) {
    print_capabilities();
    return 0;
  }
  const tzmark::Reader reader = tzmark::Reader::open(arguments.file, read_options(arguments.key));
  if (app.got_subcommand("decode")) {
    std::cout << tzmark::canonical_json(reader);
    return 0;
  }
  reader.verify();
  print({{"verified", true}});
  return 0;
}

int explain(const tzmark::Error& error) {
  switch (error.error_class()) {
    case tzmark::ErrorClass::kFile:
      print({{"rejected",
              {{"rule", error.rule()},
               {"offset", error.offset() ? Json(*error.offset()) : Json()},
               {"message", error.message()}}}});
      return kRejectedStatus;
    case tzmark::ErrorClass::kUnavailable:
      print({{"unsupported", error.message()}});
      return kUnsupportedStatus;
    case tzmark::ErrorClass::kUsage:
    case tzmark::ErrorClass::kEnvironment:
      break;
  }
  std::cerr << "tzmark-adapter-reference: " << error.what() << '\n';
  return kNoAnswerStatus;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The tzmark reference codec as an adapter of the conformance suite.", "tzmark-adapter-reference");
  app.require_subcommand(1);
  Arguments arguments;
  app.add_subcommand("capabilities", "print what this adapter can do");
  add_file_arguments(*app.add_subcommand("decode", "print the canonical JSON of a file"), arguments);
  add_file_arguments(*app.add_subcommand("verify", "check a file and everything that it says about itself"), arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kNoAnswerStatus;
  }
  try {
    const int status = answer(app, arguments);
    std::cout.flush();
    if (!std::cout) {
      std::cerr << "tzmark-adapter-reference: stdout cannot be written\n";
      return kNoAnswerStatus;
    }
    return status;
  } catch (const tzmark::Error& error) {
    return explain(error);
  }
}
