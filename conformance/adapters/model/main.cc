// The models as an adapter (conformance/PROTOCOL.md): a second implementation for the suite to judge. A file whose name
// ends in .safetensors or .safetensors.index.json is of that format.
// With --without RULE it skips the checks of that rule. The suite must catch each such reader. Any failure other than
// that of the file is no answer: a line on stderr and a status above 2.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "model/model.h"
#include "model/tables.h"
#include "model/text.h"
#include "safetensors_model/describe.h"
#include "safetensors_model/describe_sharded.h"

namespace tzmark::conformance::model {
namespace {

constexpr int kRejectedStatus = 1;
constexpr int kNoAnswerStatus = 3;

// What the command line says of all questions.
struct Reader {
  std::set<std::string> without;
  safetensors::Profile profile = safetensors::Profile::kSpec;
};

struct Question {
  std::string command;
  std::string file;
  Secret secret;
};

// Names and messages may quote bytes of a hostile file.
void print(const Json& document) {
  std::cout << document.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) throw std::runtime_error(path + " cannot be read");
  return content;
}

// A shard is what a stranger's index names: a FIFO would wait, and a device never ends.
std::string content_of_shard(const std::filesystem::path& path) {
  std::error_code absent;
  if (std::filesystem::is_regular_file(path, absent)) return content_of(path);
  throw std::runtime_error(path.string() + " is not a regular file");
}

Json capabilities(const std::set<std::string>& without) {
  Json names = Json::array();
  for (const Layout& layout : layouts()) names.push_back(layout.name);
  names.push_back("safetensors");
  names.push_back("safetensors-sharded");
  std::string name = "tzmark model";
  for (const std::string& rule : without) name += (rule == *without.begin() ? " without " : ", ") + rule;
  return {{"protocol", 1},
          {"name", name},
          {"version", TZMARK_VERSION},
          {"commands", {"decode", "verify", "serve"}},
          {"reads", {{"layouts", names}}}};
}

Description description_of(const Question& question, const Reader& reader) {
  const std::string content = content_of(question.file);
  const auto bytes = std::as_bytes(std::span(content));
  if (question.file.ends_with(".safetensors")) return safetensors::describe(bytes, reader.profile, reader.without);
  if (!question.file.ends_with(".safetensors.index.json")) return describe(bytes, question.secret, reader.without);
  const auto open_shard = [&](const std::string& name) {
    return std::optional(content_of_shard(std::filesystem::path(question.file).replace_filename(name)));
  };
  return safetensors::describe_sharded(bytes, open_shard, reader.profile, reader.without);
}

// One member: what the answer is.
Json answer(const Question& question, const Reader& reader) {
  if (question.command == "capabilities") return {{"capabilities", capabilities(reader.without)}};
  if (question.command != "decode" && question.command != "verify") {
    return {{"unsupported", "the model does not know " + question.command}};
  }
  const Description description = description_of(question, reader);
  const bool verifies = question.command == "verify";
  const auto defect =
      std::find_if(description.defects.begin(), description.defects.end(), verifies ? refuses_verify : refuses_decode);
  if (defect != description.defects.end()) {
    return {{"rejected",
             {{"rule", defect->rule},
              {"offset", defect->offset ? Json(*defect->offset) : Json()},
              {"message", sentence_of(*defect)}}}};
  }
  return verifies ? Json{{"verified", true}} : Json{{"decoded", description.document}};
}

int answer_once(const Question& question, const Reader& reader) {
  const Json reply = answer(question, reader);
  const bool bare = reply.contains("capabilities") || reply.contains("decoded");
  print(bare ? reply.front() : reply);
  return reply.contains("rejected") ? kRejectedStatus : 0;
}

int serve(const Reader& reader) {
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = Json::parse(line);
    Question question{request.at("command"), request.value("file", ""), {}};
    if (request.contains("key_hex")) question.secret.key = key_of_hex(request["key_hex"]);
    if (request.contains("passphrase")) question.secret.passphrase = request["passphrase"];
    Json reply = {{"id", request.at("id")}};
    reply.update(answer(question, reader));
    print(reply);
  }
  return 0;
}

// An unknown id would silently skip nothing.
std::string check_rule(const std::string& text) {
  const bool right = (text.size() == 11 && text.starts_with("TZR-") && text[7] == '-') ||
                     (text.size() == 6 && text.starts_with("ST-"));
  return right ? "" : text + " is not the id of a rule, such as TZR-HDR-003 or ST-014";
}

int run(int argc, char** argv) {
  CLI::App app("The tzmark model as an adapter of the conformance suite.", "tzmark-adapter-model");
  Reader reader;
  std::optional<std::string> key_file;
  std::optional<std::string> passphrase_file;
  Question question;
  app.add_option("--profile", reader.profile, "of safetensors files: spec or library")
      ->transform(CLI::CheckedTransformer(std::map<std::string, safetensors::Profile>{
          {"spec", safetensors::Profile::kSpec}, {"library", safetensors::Profile::kLibrary}}));
  app.add_option("--without", reader.without, "skip the checks of this rule")
      ->type_name("RULE")
      ->check(check_rule)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.require_subcommand(1);
  app.add_subcommand("capabilities", "print what this adapter can do");
  app.add_subcommand("serve", "answer requests, one per line");
  for (const char* name : {"decode", "verify"}) {
    CLI::App& command = *app.add_subcommand(name, "decode or verify a file");
    command.add_option("FILE", question.file)->required();
    CLI::Option* key = command.add_option("--key-file", key_file, "64 hexadecimal digits")->type_name("F");
    command.add_option("--passphrase-file", passphrase_file)->type_name("F")->excludes(key);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kNoAnswerStatus;
  }
  question.command = app.get_subcommands().front()->get_name();
  if (question.command == "serve") return serve(reader);
  if (key_file) question.secret.key = key_of_hex(content_of(*key_file));
  if (passphrase_file) question.secret.passphrase = content_of(*passphrase_file);
  return answer_once(question, reader);
}

}  // namespace
}  // namespace tzmark::conformance::model

int main(int argc, char** argv) {
  try {
    const int status = tzmark::conformance::model::run(argc, argv);
    if (std::cout) return status;
    std::cerr << "tzmark-adapter-model: stdout cannot be written\n";
  } catch (const std::exception& error) {
    std::cerr << "tzmark-adapter-model: " << error.what() << '\n';
  }
  return 3;
}
