// A directory of failures; see findings.h.
#include "mutation/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <system_error>

#include "mutation/choices.h"
#include "runner/errors.h"
#include "runner/file_content.h"
#include "runner/file_format.h"
#include "runner/sha256.h"

namespace tzmark::conformance::mutation {
namespace {

namespace fs = std::filesystem;

// A reader may report the content of such a file, so the manifest may have it.
bool may_be_read(Verdict verdict) {
  return verdict == Verdict::kValid || verdict == Verdict::kIntegrityFailure ||
         verdict == Verdict::kImplementationDefined;
}

Json entry_of(const Finding& finding, const std::string& path) {
  const Case& item = finding.item;
  const bool writes = item.operation == Operation::kEncode;
  Json entry = {{"id", item.id},
                {writes ? "spec" : "path", path},
                {"sha256", sha256_of(finding.bytes)},
                {"size_bytes", finding.bytes.size()}};
  entry.update(describe(item));
  entry["origin"] = item.origin;
  const auto seconds = static_cast<std::int64_t>(seconds_of(item.limits.elapsed_max));
  entry["limits"] = {{"memory_bytes", item.limits.memory_max_bytes}, {"seconds", std::max<std::int64_t>(1, seconds)}};
  if (item.open_choice) entry["open_choice"] = *item.open_choice;
  if (item.choice_name) entry["choice_name"] = *item.choice_name;
  if (item.key_hex) entry["key_hex"] = *item.key_hex;
  if (item.passphrase) entry["passphrase"] = *item.passphrase;
  return entry;
}

Json json_of(const OpenChoice& choice) {
  return {{"text", choice.text},
          {"rules", choice.rules},
          {"tzmark", choice.tzmark_accepts ? "accept" : "reject"},
          {"rejected_by", choice.rejected_by_verify ? "verify" : "decode"}};
}

}  // namespace

Findings::Findings(const fs::path& directory)
    : manifest_({{"schema_version", 1},
                 {"archives", Json::array()},
                 {"open_choices", Json::object()},
                 {"cases", Json::array()},
                 {"encode_cases", Json::array()}}) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error && !fs::is_empty(directory, error) && !error) {
    throw EnvironmentError(fmt::format("{}: already exists and is not empty", directory.string()));
  }
  if (error) throw EnvironmentError(fmt::format("{}: {}", directory.string(), error.message()));
  directory_ = fs::canonical(directory);
  // All of them, so that a repetition may name any policy.
  for (const auto& [name, choice] : open_choices()) manifest_["open_choices"][name] = json_of(choice);
}

fs::path Findings::add(const Finding& finding) {
  const bool writes = finding.item.operation == Operation::kEncode;
  const std::string_view suffix = writes ? ".spec.json" : format_of_layout(finding.item.layout).suffix;
  const std::string path = finding.item.id + std::string(suffix);
  Json entry = entry_of(finding, path);
  write_output_file(directory_ / path, {reinterpret_cast<const char*>(finding.bytes.data()), finding.bytes.size()});
  if (finding.expected && may_be_read(finding.item.verdict)) {
    const std::string expected = dump_lines(*finding.expected);
    entry["expected"] = finding.item.id + ".json";
    entry["expected_sha256"] = sha256_of(std::as_bytes(std::span(expected)));
    write_output_file(directory_ / (finding.item.id + ".json"), expected);
  }
  manifest_[writes ? "encode_cases" : "cases"].push_back(entry);
  write_output_file(directory_ / "manifest.json", dump_lines(manifest_));
  const Json described = {
      {"case", entry}, {"outcome", finding.outcome}, {"reason", finding.reason}, {"repeat", finding.repeat}};
  write_output_file(directory_ / (finding.item.id + ".finding.json"), dump_lines(described));
  return directory_ / path;
}

}  // namespace tzmark::conformance::mutation
