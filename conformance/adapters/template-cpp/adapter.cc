// An adapter to fill in: it lets the conformance suite ask your reader. Put your reader into read(); the rest stays.
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

using Json = nlohmann::json;

const Json kProfile = {
    {"protocol", 1},
    {"name", "my reader"},
    {"version", "0.1"},
    {"commands", {"decode", "verify", "serve"}},
    {"reads", {{"layouts", {"v1"}}, {"lacks", Json::array()}, {"omits", Json::array()}, {"shapes", Json::array()}}}};

// Thrown by read() for a file that is wrong. Whatever else it throws counts as a crash.
struct Rejected {
  std::string message;
  Json rule = nullptr;
  Json offset = nullptr;
};

// Thrown by read() for a file that may be right, but that your reader cannot read. The suite skips it.
struct Unsupported {
  std::string message;
};

// Your reader. Returns canonical JSON; if verify, it checks every hash too. request may have key_hex or passphrase.
Json read(const std::string& file, [[maybe_unused]] const Json& request, bool verify) {
  std::string magic(5, '\0');
  std::ifstream(file, std::ios::binary).read(magic.data(), 5);
  if (magic != "|TZR|") throw Rejected{"this is no .tensors file"};
  throw Unsupported{verify ? "there is no verification here yet" : "there is no reader here yet"};
}

// The answer to a request of serve, without its id.
Json answer(const Json& request) try {
  if (request.at("command") == "capabilities") return {{"capabilities", kProfile}};
  const bool verify = request.at("command") == "verify";
  const Json content = read(request.at("file"), request, verify);
  return verify ? Json{{"verified", true}} : Json{{"decoded", content}};
} catch (const Rejected& error) {
  return {{"rejected", {{"rule", error.rule}, {"offset", error.offset}, {"message", error.message}}}};
} catch (const Unsupported& error) {
  return {{"unsupported", error.message}};
}

// Answers lines of JSON until stdin ends.
void serve() {
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = Json::parse(line);
    Json given;
    try {
      given = answer(request);
    } catch (const std::exception& error) {
      given = {{"crashed", error.what()}};
    }
    given["id"] = request.at("id");
    std::cout << given.dump(-1, ' ', true, Json::error_handler_t::replace) << std::endl;
  }
}

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.at(0) == "serve") return serve(), 0;
  Json request = {{"command", words[0]}};
  if (words.size() > 1) request["file"] = words[1];
  if (words.size() > 3) {
    std::ifstream secret(words[3]);
    const std::string text{std::istreambuf_iterator<char>(secret), {}};
    request[words[2] == "--key-file" ? "key_hex" : "passphrase"] = text;
  }
  const Json given = answer(request);
  const std::string kind = given.begin().key();
  const bool bare = kind == "capabilities" || kind == "decoded";
  std::cout << (bare ? given.front() : given).dump(-1, ' ', true, Json::error_handler_t::replace) << '\n';
  return kind == "rejected" ? 1 : kind == "unsupported" ? 2 : 0;
}
