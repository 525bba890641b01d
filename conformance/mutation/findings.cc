// A folder of failures; see findings.h.
#include "mutation/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "runner/errors.h"
#include "runner/file_content.h"
#include "runner/sha256.h"

namespace tzmark::conformance::mutation {
namespace {

namespace fs = std::filesystem;

// Of the content of a file a reader may say something, so the manifest may say what.
bool may_be_read(Verdict verdict) {
  return verdict == Verdict::kValid || verdict == Verdict::kIntegrityFailure ||
         verdict == Verdict::kImplementationDefined;
}

Json entry_of(const Finding& finding, const std::string& path) {
  const Case& item = finding.item;
  Json entry = {{"id", item.id},
                {"path", path},
                {"sha256", sha256_of(finding.bytes)},
                {"size_bytes", finding.bytes.size()},
                {"layout", item.layout},
                {"features", item.features},
                {"verdict", name_of(item.verdict)},
                {"tier", item.tier},
                {"rules", item.rules},
                {"why", item.why},
                {"origin", item.origin},
                {"limits",
                 {{"memory_bytes", item.memory_max_bytes},
                  {"seconds", std::max<std::int64_t>(
                                  1, std::chrono::duration_cast<std::chrono::seconds>(item.elapsed_max).count())}}}};
  if (item.open_choice) entry["open_choice"] = *item.open_choice;
  if (item.key_hex) entry["key_hex"] = *item.key_hex;
  if (item.passphrase) entry["passphrase"] = *item.passphrase;
  return entry;
}

std::string pretty(const Json& document) { return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

Findings::Findings(const fs::path& directory)
    : manifest_({{"schema_version", 1}, {"archives", Json::array()}, {"cases", Json::array()}}) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error && !fs::is_empty(directory, error) && !error) {
    throw EnvironmentError(fmt::format("{}: is there already, and not empty", directory.string()));
  }
  if (error) throw EnvironmentError(fmt::format("{}: {}", directory.string(), error.message()));
  directory_ = fs::canonical(directory);
}

fs::path Findings::add(const Finding& finding) {
  const std::string path = finding.item.id + ".tensors";
  Json entry = entry_of(finding, path);
  write_file(directory_ / path, {reinterpret_cast<const char*>(finding.bytes.data()), finding.bytes.size()});
  if (finding.expected && may_be_read(finding.item.verdict)) {
    entry["expected"] = finding.item.id + ".json";
    write_file(directory_ / (finding.item.id + ".json"), pretty(*finding.expected));
  }
  manifest_["cases"].push_back(entry);
  write_file(directory_ / "manifest.json", pretty(manifest_));
  const Json described = {
      {"case", entry}, {"outcome", finding.outcome}, {"reason", finding.reason}, {"repeat", finding.repeat}};
  write_file(directory_ / (finding.item.id + ".finding.json"), pretty(described));
  return directory_ / path;
}

}  // namespace tzmark::conformance::mutation
