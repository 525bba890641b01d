// The corpus as its manifest describes it; see manifest.h.
#include "runner/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>
#include <utility>

#include "model/text.h"
#include "runner/errors.h"
#include "runner/file_content.h"
#include "runner/sha256.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

constexpr int kSchemaVersion = 1;
constexpr const char* kManifestName = "manifest.json";
constexpr const char* kRulesName = "rules.json";

// Bounds what a case of several files takes on the disk, where each file counts as a block at least.
constexpr std::uint64_t kShardsMaxBytes = 256u << 20;
constexpr std::uint64_t kShardLeastBytes = 4096;
constexpr std::size_t kShardNameMaxBytes = 255;

constexpr std::array<std::string_view, 6> kVerdictNames = {
    "valid", "malformed", "invalid", "authentication-failure", "integrity-failure", "implementation-defined"};

Verdict parse_verdict(const std::string& name) {
  for (std::size_t i = 0; i < kVerdictNames.size(); ++i) {
    if (kVerdictNames[i] == name) return static_cast<Verdict>(i);
  }
  throw EnvironmentError(fmt::format("unknown verdict '{}'", name));
}

// A file name inside the corpus.
fs::path parse_path(const std::string& text) {
  fs::path path = text;
  bool inside = !path.empty() && path.is_relative();
  for (const fs::path& part : path) inside = inside && part != "..";
  if (!inside) throw EnvironmentError(fmt::format("'{}' is not a path below the corpus", text));
  return path;
}

// An id names the directory of --keep, and a line of text reports.
std::string parse_id(const std::string& text) {
  const auto is_bad = [](unsigned char c) { return c == '/' || c < ' ' || c == 0x7f; };
  if (text.empty() || text == "." || text == ".." || std::ranges::any_of(text, is_bad)) {
    throw EnvironmentError(fmt::format("the id '{}' is not a file name", one_line(text, 100)));
  }
  return text;
}

// Where a file of this name is staged, relative to the temporary directory: the index is in "model" there.
fs::path staged_place(const std::string& name) {
  const fs::path place = (fs::path("model") / name).lexically_normal();
  const bool is_name = !name.empty() && name.size() <= kShardNameMaxBytes && name.find('\0') == name.npos;
  const bool is_file = is_name && place.is_relative() && place.has_filename() && place != "." && place != "model";
  if (!is_file || *place.begin() == "..") {
    throw EnvironmentError(fmt::format("'{}' is not the name of a shard", one_line(name, 100)));
  }
  return place;
}

template <typename T>
std::optional<T> optional_field(const Json& entry, const char* name) {
  const auto found = entry.find(name);
  if (found == entry.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

std::vector<ShardPath> parse_shards(const Json& entries) {
  std::vector<ShardPath> shards;
  std::set<fs::path> places;
  std::uint64_t left_bytes = kShardsMaxBytes;
  for (const Json& entry : entries) {
    const fs::path path = parse_path(entry.at("path").get<std::string>());
    ShardPath shard{path, optional_field<std::string>(entry, "name").value_or(path.filename()),
                    entry.at("sha256").get<std::string>(), entry.at("size_bytes").get<std::uint64_t>()};
    if (!places.insert(staged_place(shard.name)).second) {
      throw EnvironmentError(fmt::format("two shards of the name '{}'", one_line(shard.name, 100)));
    }
    const std::uint64_t taken_bytes = std::max(shard.size_bytes, kShardLeastBytes);
    if (taken_bytes > left_bytes) {
      throw EnvironmentError(fmt::format("the shards have more than {} MiB", kShardsMaxBytes >> 20));
    }
    left_bytes -= taken_bytes;
    shards.push_back(std::move(shard));
  }
  for (const fs::path& place : places) {
    for (fs::path above = place.parent_path(); !above.empty(); above = above.parent_path()) {
      if (!places.contains(above)) continue;
      throw EnvironmentError(
          fmt::format("a shard has the name of the directory of '{}'", one_line(place.string(), 100)));
    }
  }
  return shards;
}

Case parse_case(const Json& entry, Operation operation) {
  Case item;
  item.id = parse_id(entry.at("id").get<std::string>());
  item.operation = operation;
  item.path = parse_path(entry.at(operation == Operation::kRead ? "path" : "spec").get<std::string>());
  item.sha256 = entry.at("sha256").get<std::string>();
  item.size_bytes = entry.at("size_bytes").get<std::uint64_t>();
  if (const auto shards = entry.find("shards"); shards != entry.end()) item.shards = parse_shards(*shards);
  item.directory_placeholder = optional_field<std::string>(entry, "directory_placeholder").value_or("");
  // As it is in the corpus, the file names an absolute path too, and so has the same verdict.
  if (!item.directory_placeholder.empty() && !item.directory_placeholder.starts_with('/')) {
    throw EnvironmentError("directory_placeholder is no absolute path");
  }
  item.layout = entry.at("layout").get<std::string>();
  item.features = entry.at("features").get<std::vector<std::string>>();
  item.verdict = parse_verdict(entry.at("verdict").get<std::string>());
  item.tier = entry.at("tier").get<std::string>();
  item.rules = entry.at("rules").get<std::vector<std::string>>();
  item.why = entry.at("why").get<std::string>();
  item.origin = entry.at("origin");
  item.key_hex = optional_field<std::string>(entry, "key_hex");
  item.passphrase = optional_field<std::string>(entry, "passphrase");
  if (item.key_hex && item.passphrase) throw EnvironmentError("both key_hex and passphrase");
  if (const auto expected = optional_field<std::string>(entry, "expected")) {
    item.expected = parse_path(*expected);
    // Without it, an answer that somebody changed would be taken for the expected one.
    if (!entry.contains("expected_sha256")) throw EnvironmentError("'expected' without 'expected_sha256'");
    item.expected_sha256 = entry.at("expected_sha256").get<std::string>();
  }
  if (item.verdict == Verdict::kValid && !item.expected) throw EnvironmentError("a valid case without 'expected'");
  const Json& limits = entry.at("limits");
  item.limits.memory_max_bytes = limits.at("memory_bytes").get<std::uint64_t>();
  const auto seconds = limits.at("seconds").get<double>();
  if (!(seconds > 0) || seconds > 1e6) throw EnvironmentError("limits.seconds is not a sensible number");
  item.limits.elapsed_max = nanoseconds_of(seconds);
  item.pipe_max_bytes = optional_field<std::uint64_t>(limits, "pipe_bytes");
  item.open_choice = optional_field<std::string>(entry, "open_choice");
  item.choice_name = optional_field<std::string>(entry, "choice_name");
  item.erratum = optional_field<std::string>(entry, "erratum");
  item.sequence = optional_field<std::string>(entry, "sequence");
  return item;
}

bool parse_either(const Json& value, std::string_view yes, std::string_view no) {
  const auto text = value.get<std::string>();
  if (text != yes && text != no) throw EnvironmentError(fmt::format("'{}' is neither '{}' nor '{}'", text, yes, no));
  return text == yes;
}

OpenChoice parse_choice(const Json& entry) {
  return {.text = entry.at("text").get<std::string>(),
          .rules = entry.at("rules").get<std::vector<std::string>>(),
          .tzmark_accepts = parse_either(entry.at("tzmark"), "accept", "reject"),
          .rejected_by_verify = parse_either(entry.at("rejected_by"), "verify", "decode")};
}

std::map<std::string, Rule> parse_rules(const Json& document, const fs::path& path) {
  std::map<std::string, Rule> rules;
  try {
    for (const auto& [id, rule] : document.at("rules").items()) {
      rules[id] = {rule.at("level").get<std::string>(), rule.at("binds").get<std::string>(),
                   rule.at("text").get<std::string>(), rule.at("section").get<std::string>()};
    }
  } catch (const Json::exception& error) {
    throw EnvironmentError(fmt::format("{}: {}", path.string(), problem_of(error)));
  }
  return rules;
}

// A file of a case, if it is what the manifest says. A file of another size is not read.
std::vector<std::byte> read_corpus_file(const Manifest& manifest, const Case& item, const fs::path& name,
                                        const std::string& expected_sha256, std::optional<std::uint64_t> size_bytes) {
  const fs::path file = manifest.directory / name;
  if (!fs::exists(file)) throw EnvironmentError(fmt::format("case {}: {} is missing", item.id, file.string()));
  std::error_code is_no_file;
  const std::uint64_t found_bytes = fs::file_size(file, is_no_file);
  if (!is_no_file && found_bytes != size_bytes.value_or(found_bytes)) {
    throw EnvironmentError(fmt::format("case {}: {} has {} bytes, but the manifest says {}: restore the corpus",
                                       item.id, file.string(), found_bytes, *size_bytes));
  }
  std::vector<std::byte> content = size_bytes ? read_file(file, *size_bytes) : read_file(file);
  // Of the bytes that are used, for the file may change at any time.
  const std::string sha256 = sha256_of(content);
  if (sha256 == expected_sha256) return content;
  throw EnvironmentError(fmt::format("case {}: {} has SHA-256 {}, but the manifest says {}: restore the corpus",
                                     item.id, file.string(), sha256, expected_sha256));
}

std::vector<std::byte> read_shard(const Manifest& manifest, const Case& item, const ShardPath& shard) {
  return read_corpus_file(manifest, item, shard.path, shard.sha256, shard.size_bytes);
}

std::string read_expected(const Manifest& manifest, const Case& item) {
  const std::vector<std::byte> content =
      read_corpus_file(manifest, item, *item.expected, item.expected_sha256, std::nullopt);
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

}  // namespace

std::string_view name_of(Verdict verdict) { return kVerdictNames[static_cast<std::size_t>(verdict)]; }

std::string_view name_of(const Policy& policy) { return policy.accepts ? "accept" : "reject"; }

Verdict required_verdict(const Case& item) {
  if (!item.policy) return item.verdict;
  if (item.policy->accepts) return Verdict::kValid;
  return item.policy->rejected_by_verify ? Verdict::kIntegrityFailure : Verdict::kInvalid;
}

std::string_view name_of(Operation operation) { return operation == Operation::kRead ? "read" : "encode"; }

Manifest load_manifest(const fs::path& directory) {
  const fs::path path = directory / kManifestName;
  if (!fs::exists(path))
    throw EnvironmentError(fmt::format("no corpus at {}: it has no manifest.json", directory.string()));
  Manifest manifest;
  manifest.directory = fs::canonical(directory);
  // It may be a stranger's: a FIFO would wait, and a link could lead to any file of the user.
  const std::vector<std::byte> content = read_file(path);
  manifest.sha256 = sha256_of(content);
  const Json document = parse_json(model::text_of(content), path);
  if (!document.is_object() || !document.contains("cases") || !document["cases"].is_array()) {
    throw EnvironmentError(fmt::format("{}: no list of cases", path.string()));
  }
  if (document.value("schema_version", Json()) != kSchemaVersion) {
    throw EnvironmentError(fmt::format("{}: schema_version is not {}", path.string(), kSchemaVersion));
  }
  if (document.contains("open_choices")) {
    for (const auto& [name, entry] : document["open_choices"].items()) {
      try {
        manifest.open_choices[name] = parse_choice(entry);
      } catch (const std::exception& error) {
        throw EnvironmentError(fmt::format("{}: open choice '{}': {}", path.string(), name, problem_of(error)));
      }
    }
  }
  std::set<std::string> ids;
  const auto add = [&](const Json& entries, Operation operation) {
    for (const Json& entry : entries) {
      const bool has_id = entry.is_object() && entry.value("id", Json()).is_string();
      const std::string name =
          has_id ? one_line(entry["id"].get<std::string>(), 100) : std::to_string(manifest.cases.size());
      const std::string place = fmt::format("{}: case {}", path.string(), name);
      try {
        manifest.cases.push_back(parse_case(entry, operation));
      } catch (const std::exception& error) {
        throw EnvironmentError(fmt::format("{}: {}", place, problem_of(error)));
      }
      const std::string& id = manifest.cases.back().id;
      const auto& choice = manifest.cases.back().choice_name;
      if (choice && !manifest.open_choices.contains(*choice)) {
        throw EnvironmentError(fmt::format("{}: the manifest has no open choice '{}'", place, *choice));
      }
      if (!ids.insert(id).second) throw EnvironmentError(fmt::format("{}: a second case of id '{}'", place, id));
    }
  };
  add(document["cases"], Operation::kRead);
  if (document.contains("encode_cases")) add(document["encode_cases"], Operation::kEncode);
  if (const fs::path rules = directory / kRulesName; fs::exists(rules)) {
    const std::vector<std::byte> text = read_file(rules);
    manifest.rules_sha256 = sha256_of(text);
    manifest.rules = parse_rules(parse_json(model::text_of(text), rules), rules);
  }
  return manifest;
}

Json describe(const Case& item) {
  return {{"layout", item.layout}, {"features", item.features}, {"verdict", name_of(item.verdict)},
          {"tier", item.tier},     {"rules", item.rules},       {"why", item.why}};
}

std::vector<std::byte> read_case_file(const Manifest& manifest, const Case& item) {
  return read_corpus_file(manifest, item, item.path, item.sha256, item.size_bytes);
}

std::vector<Shard> read_shards(const Manifest& manifest, const Case& item) {
  std::map<std::pair<fs::path, std::string>, std::shared_ptr<const std::vector<std::byte>>> contents;
  std::vector<Shard> shards;
  for (const ShardPath& shard : item.shards) {
    auto& content = contents[{shard.path, shard.sha256}];
    if (!content) content = std::make_shared<const std::vector<std::byte>>(read_shard(manifest, item, shard));
    shards.push_back({shard.name, content});
  }
  return shards;
}

void check_files(const Manifest& manifest, const Case& item) {
  read_case_file(manifest, item);
  std::set<std::pair<fs::path, std::string>> checked;
  for (const ShardPath& shard : item.shards) {
    if (checked.insert({shard.path, shard.sha256}).second) read_shard(manifest, item, shard);
  }
  if (item.expected) read_expected(manifest, item);
}

void load_expected(const Manifest& manifest, std::vector<Case>& cases) {
  for (Case& item : cases) {
    if (item.expected) item.expected_text = std::make_shared<const std::string>(read_expected(manifest, item));
  }
}

std::optional<Json> expected_of(const Case& item) {
  if (!item.expected) return std::nullopt;
  if (!item.expected_text) throw std::logic_error(item.id + ": the expected answer was not loaded");
  try {
    return Json::parse(*item.expected_text);
  } catch (const Json::exception& error) {
    throw EnvironmentError(fmt::format("case {}: {}: {}", item.id, item.expected->string(), error.what()));
  }
}

void check_unchanged(const Manifest& manifest, const std::vector<Case>& cases) {
  const auto check = [&](const char* name, const std::string& sha256) {
    const fs::path path = manifest.directory / name;
    if ((fs::exists(path) ? sha256_of(read_file(path)) : "") == sha256) return;
    throw EnvironmentError(fmt::format("{} was changed during the run: restore the corpus", path.string()));
  };
  check(kManifestName, manifest.sha256);
  check(kRulesName, manifest.rules_sha256);
  for (const Case& item : cases) check_files(manifest, item);
}

}  // namespace tzmark::conformance
