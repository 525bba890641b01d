// The cases of the built corpus; see corpus_files.h.
#include "model/corpus_files.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "model/text.h"

namespace tzmark::conformance::model {
namespace {

Json json_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path.string() + " cannot be read");
  return Json::parse(file);
}

std::filesystem::path corpus_directory() {
  const char* build = std::getenv("TZMARK_BUILD_DIR");
  if (!build) throw std::runtime_error("TZMARK_BUILD_DIR is not set");
  return std::filesystem::path(build) / "share/tzmark/corpus";
}

}  // namespace

std::vector<CorpusCase> corpus_cases() {
  const std::filesystem::path corpus = corpus_directory();
  std::vector<CorpusCase> cases;
  const Json manifest = json_of(corpus / "manifest.json");
  for (const Json& entry : manifest.at("cases")) {
    CorpusCase item{
        entry.at("id"), corpus / entry.at("path").get<std::string>(), entry.at("verdict"), entry.at("rules"), {},
        nullptr};
    if (entry.contains("key_hex")) item.secret.key = key_of_hex(entry.at("key_hex"));
    if (entry.contains("passphrase")) item.secret.passphrase = entry.at("passphrase");
    if (entry.contains("expected")) item.expected = json_of(corpus / entry.at("expected").get<std::string>());
    cases.push_back(std::move(item));
  }
  if (cases.empty()) throw std::runtime_error("the corpus holds no case");
  return cases;
}

Json corpus_rules() { return json_of(corpus_directory() / "rules.json"); }

std::vector<std::byte> bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string() + " cannot be read");
  const std::vector<char> content{std::istreambuf_iterator<char>(file), {}};
  const Bytes bytes = std::as_bytes(std::span(content));
  return {bytes.begin(), bytes.end()};
}

}  // namespace tzmark::conformance::model
