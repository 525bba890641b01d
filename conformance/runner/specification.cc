// Specifications of the corpus, made into files; see specification.h.
#include "runner/specification.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <stdexcept>

#include "runner/errors.h"
#include "runner/file_content.h"
#include "runner/json.h"
#include "runner/sha256.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

std::string bytes_of_hex(const std::string& digits) {
  if (digits.size() % 2 != 0) throw EnvironmentError("an odd number of hexadecimal digits");
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    unsigned char byte = 0;
    const char* const end = digits.data() + i + 2;
    if (std::from_chars(digits.data() + i, end, byte, 16).ptr != end) {
      throw EnvironmentError(fmt::format("'{}' is not hexadecimal", digits));
    }
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string bytes_of_stream(const std::string& seed, std::size_t length) {
  std::string bytes;
  bytes.reserve(length + 32);
  for (std::size_t block = 0; bytes.size() < length; ++block) bytes += sha256_digest(fmt::format("{}:{}", seed, block));
  bytes.resize(length);
  return bytes;
}

}  // namespace

std::string data_of_recipe(const Json& recipe) {
  if (recipe.contains("hex")) return bytes_of_hex(recipe["hex"].get<std::string>());
  return bytes_of_stream(recipe.at("stream").get<std::string>(), recipe.at("length").get<std::size_t>());
}

fs::path write_specification(const Json& specification, const fs::path& directory) {
  Json document = specification;
  try {
    std::map<std::string, std::string> files;
    for (const auto& [name, recipe] : document.at("data").items()) {
      files[name] = directory / (name + ".bin");
      write_file(files[name], data_of_recipe(recipe));
    }
    document.erase("data");
    for (Json& tensor : document.at("tensors")) {
      Json& data = tensor.at("data");
      if (data.is_null()) continue;
      data = {{"file", files.at(data.at("of").get<std::string>())},
              {"offset", data.at("offset")},
              {"length", data.at("length")}};
    }
  } catch (const Json::exception& error) {
    throw EnvironmentError(fmt::format("a specification of the corpus: {}", problem_of(error)));
  } catch (const std::out_of_range&) {
    throw EnvironmentError("a specification of the corpus names data that it lacks");
  }
  const fs::path path = directory / "spec.json";
  write_file(path, document.dump(1) + "\n");
  return path;
}

}  // namespace tzmark::conformance
