// The reference codec as an adapter (conformance/PROTOCOL.md), in both forms of the protocol.
// Only a fault of the file or of the specification is a rejection. If the environment fails or an argument is invalid,
// the adapter reports it on stderr and exits with a status that is no answer, which the suite never takes for a
// judgement.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "adapters/reference/encode.h"
#include "adapters/reference/question_file.h"
#include "adapters/reference/safetensors_document.h"
#include "tzmark/canonical.h"
#include "tzmark/crypto.h"
#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/reader.h"
#include "tzmark/safetensors.h"
#include "tzmark/version.h"

namespace tzmark::adapter {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRejectedStatus = 1;
constexpr int kUnsupportedStatus = 2;
constexpr int kNoAnswerStatus = 3;

struct Question {
  std::string command;
  std::string file;  // of encode: the specification
  std::string out;   // of encode
  std::optional<KeySource> key;
  std::optional<FileRange> part;  // the file, in a larger one
};

// The one member of an answer: its name, and its value as JSON text.
struct Answer {
  std::string name;
  std::string value;
};

// Replaces bytes that are not UTF-8: names and messages may quote bytes of a hostile file.
std::string dump(const Json& document) { return document.dump(-1, ' ', false, Json::error_handler_t::replace); }

// The input modes besides files: URLs where requests can be sent.
Json input_modes() {
  Json modes = {"pipe", "offset"};
  const bool has_urls = std::ranges::any_of(
      io_paths(), [](const IoPath& path) { return path.traits.is_remote && path.why_unavailable().empty(); });
  if (has_urls) modes.insert(modes.end(), {"http", "http-faults"});
  return modes;
}

Json capabilities() {
  Json layouts = Json::array();
  for (const Layout layout : kLayouts) layouts.push_back(layout_name(layout));
  layouts.push_back("safetensors");
  Json readable = layouts;
  readable.push_back("safetensors-sharded");
  return {{"protocol", 1},
          {"name", "tzmark reference"},
          {"version", version()},
          {"commands", {"decode", "verify", "encode", "serve"}},
          {"reads", {{"layouts", readable}, {"shapes", input_modes()}}},
          {"writes", {{"layouts", layouts}}}};
}

Answer accepted_safetensors(const Question& question) {
  const bool is_sharded = question.file.ends_with(".json");
  const SafetensorsReader reader = is_sharded ? SafetensorsReader::open(question.file)
                                              : SafetensorsReader(open_question_file(question.file, question.part));
  if (question.command == "decode") {
    return {"decoded", is_sharded ? decode_sharded(reader) : decode_safetensors(reader)};
  }
  reader.verify();
  return {"verified", "true"};
}

Answer accepted(Question& question) {
  if (question.command == "encode") {
    encode(question.file, question.out, std::move(question.key));
    return {"encoded", "true"};
  }
  if (is_safetensors_name(question.file)) return accepted_safetensors(question);
  ReadOptions options;
  options.key = std::move(question.key);
  const Reader reader(open_question_file(question.file, question.part), std::move(options));
  if (question.command == "decode") return {"decoded", canonical_json(reader)};
  if (question.command != "verify") throw Error(ErrorCode::kUsage, "unknown command " + question.command);
  reader.verify();
  return {"verified", "true"};
}

// Throws Error if the environment fails.
Answer answer(Question& question) {
  try {
    return accepted(question);
  } catch (const Error& error) {
    if (error.error_class() == ErrorClass::kUnavailable) return {"unsupported", dump(error.message())};
    // For a writer, content that breaks a rule is a usage error. Its other usage errors cite no rule of the format.
    const bool refused_to_write = question.command == "encode" && error.error_class() == ErrorClass::kUsage;
    if (error.error_class() != ErrorClass::kFile && !refused_to_write) throw;
    return {"rejected", dump({{"rule", error.code() == ErrorCode::kUsage ? Json() : Json(error.rule())},
                              {"offset", error.offset() ? Json(*error.offset()) : Json()},
                              {"message", error.message()}})};
  }
}

int answer_once(Question& question) {
  const auto [name, value] = answer(question);
  std::cout << (name == "decoded" ? value : "{\"" + name + "\": " + value + "}") << std::endl;
  if (name == "rejected") return kRejectedStatus;
  return name == "unsupported" ? kUnsupportedStatus : 0;
}

Question question_of(const Json& request) {
  Question question;
  question.command = request.at("command").get<std::string>();
  question.file = request.at(question.command == "encode" ? "spec" : "file").get<std::string>();
  question.out = request.value("out", "");
  if (request.contains("key_hex")) question.key.emplace(key_from_hex(request["key_hex"].get<std::string>()));
  if (request.contains("passphrase")) question.key.emplace(Passphrase(request["passphrase"].get<std::string>()));
  if (request.contains("offset")) {
    question.part = FileRange{request["offset"].get<std::uint64_t>(), request.at("length").get<std::uint64_t>()};
  }
  return question;
}

void serve() {
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = Json::parse(line);
    Answer given{"capabilities", ""};
    if (request.at("command") == "capabilities") {
      given.value = dump(capabilities());
    } else {
      Question question = question_of(request);
      given = answer(question);
    }
    // In JSON text, line ends are only white space.
    std::ranges::replace(given.value, '\n', ' ');
    std::cout << "{\"" << given.name << "\": " << given.value << ", \"id\": " << dump(request.at("id")) << '}'
              << std::endl;
  }
}

struct KeyArguments {
  std::optional<std::string> key_file;
  std::optional<std::string> passphrase_file;
};

void add_part_options(CLI::App& command, std::optional<FileRange>& part) {
  const auto assign = [&part](std::uint64_t FileRange::*member) {
    return [&part, member](const std::uint64_t& number) {
      if (!part) part.emplace();
      (*part).*member = number;
    };
  };
  CLI::Option* const offset =
      command.add_option_function<std::uint64_t>("--offset", assign(&FileRange::offset), "offset of the file in FILE");
  CLI::Option* const length =
      command.add_option_function<std::uint64_t>("--length", assign(&FileRange::length), "length of the file in bytes");
  offset->needs(length);
  length->needs(offset);
}

void add_command(CLI::App& app, const char* name, const char* summary, Question& question, KeyArguments& key) {
  CLI::App& command = *app.add_subcommand(name, summary);
  command.callback([&question, name] { question.command = name; });
  command.add_option("FILE", question.file, "the file; for encode, its specification")->required();
  if (name == std::string_view("encode")) {
    command.add_option("OUT", question.out)->required();
  } else {
    add_part_options(command, question.part);
  }
  CLI::Option_group& group = *command.add_option_group("key");
  group.add_option("--key-file", key.key_file, "32 raw bytes or 64 hexadecimal digits")->type_name("F");
  group.add_option("--passphrase-file", key.passphrase_file)->type_name("F");
  group.require_option(0, 1);
}

// The file holds the passphrase and nothing else: it may be empty, and a line end at its end belongs to it.
Passphrase whole_passphrase(const std::string& file_name) {
  std::ifstream file(file_name, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad()) throw Error(ErrorCode::kOpenFailed, file_name);
  return Passphrase(text);
}

int run(int argc, char** argv) {
  CLI::App app("The tzmark reference codec as an adapter of the conformance suite.", "tzmark-adapter-reference");
  app.require_subcommand(1);
  Question question;
  KeyArguments key;
  app.add_subcommand("capabilities", "print what this adapter can do");
  app.add_subcommand("serve", "answer requests, one per line, until stdin ends");
  add_command(app, "decode", "print the canonical JSON of a file", question, key);
  add_command(app, "verify", "check a file and all that it says about itself", question, key);
  add_command(app, "encode", "write the file of a specification", question, key);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kNoAnswerStatus;
  }
  if (key.key_file) question.key.emplace(key_from_file(*key.key_file));
  if (key.passphrase_file) question.key.emplace(whole_passphrase(*key.passphrase_file));
  int status = 0;
  if (app.got_subcommand("capabilities")) {
    std::cout << dump(capabilities()) << std::endl;
  } else if (app.got_subcommand("serve")) {
    serve();
  } else {
    status = answer_once(question);
  }
  if (std::cout) return status;
  std::cerr << "tzmark-adapter-reference: stdout cannot be written\n";
  return kNoAnswerStatus;
}

}  // namespace
}  // namespace tzmark::adapter

int main(int argc, char** argv) {
  tzmark::catch_bus_errors();
  try {
    return tzmark::adapter::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "tzmark-adapter-reference: " << error.what() << '\n';
    return tzmark::adapter::kNoAnswerStatus;
  }
}
