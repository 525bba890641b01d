// The corpus as the tests of the codec use it.
#pragma once

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "tzmark/crypto.h"
#include "tzmark/reader.h"

namespace tzmark::test {

inline std::string corpus_directory() {
  const char* build = std::getenv("TZMARK_BUILD_DIR");
  return std::string(build != nullptr ? build : ".") + "/share/tzmark/corpus/";
}

inline nlohmann::json load_json(const std::string& name) {
  std::ifstream stream(corpus_directory() + name);
  if (!stream) throw std::runtime_error("cannot open " + corpus_directory() + name);
  return nlohmann::json::parse(stream);
}

inline const nlohmann::json& manifest() {
  static const nlohmann::json manifest = load_json("manifest.json");
  return manifest;
}

// With the key that the case gives.
inline ReadOptions read_options(const nlohmann::json& test) {
  ReadOptions options;
  if (test.contains("key_hex")) options.key = key_from_hex(test.at("key_hex").get<std::string>());
  if (test.contains("passphrase")) options.key = Passphrase(test.at("passphrase").get<std::string>());
  return options;
}

inline Reader open_case(const nlohmann::json& test) {
  return Reader::open(corpus_directory() + test.at("path").get<std::string>(), read_options(test));
}

}  // namespace tzmark::test
