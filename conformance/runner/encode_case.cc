// Runs one encode case; see encode_case.h.
#include "runner/encode_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>
#include <vector>

#include "model/text.h"
#include "runner/errors.h"
#include "runner/explain.h"
#include "runner/file_content.h"
#include "runner/file_format.h"
#include "runner/scratch_directory.h"
#include "runner/sha256.h"
#include "runner/specification.h"
#include "runner/staged_file.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLowestVersionRule = "TZR-HDR-006";
constexpr std::string_view kNonceRule = "TZR-CRY-020";
constexpr std::string_view kSaltRule = "TZR-CRY-022";
constexpr std::string_view kDerivationRule = "TZR-CRY-024";

// What a writer takes at least unless it is asked for less, which no specification does.
constexpr std::uint64_t kOpslimitLeast = 2;
constexpr std::uint64_t kMemlimitLeastBytes = 19u << 20;

std::string out_name(const Case& item) { return "out" + std::string(format_of_layout(item.layout).suffix); }

// What a file may have besides its data: room in the index, headers, MACs, gaps.
constexpr std::uint64_t kOverheadMaxBytes = 64u << 20;

// The model does not know that the specification asked for a higher data version.
model::Description describe_written(std::span<const std::byte> file, const Case& item, const Json& specification) {
  const FileFormat& format = format_of_layout(item.layout);
  model::Description description = format.describe(file, secret_of(item), {});
  if (format.writer_orders && !description.document.is_null()) {
    // As the expected content has them.
    std::ranges::sort(description.document["tensors"].get_ref<Json::array_t&>(), {},
                      [](const Json& tensor) { return tensor["path"].front().get<std::string>(); });
  }
  if (specification.at("layout") == description.layout) {
    std::erase_if(description.defects, [](const model::Defect& defect) { return defect.rule == kLowestVersionRule; });
  }
  return description;
}

// A little-endian number of 24 bytes, plus 1.
void increment(std::string& nonce) {
  for (char& byte : nonce) {
    if (++byte != 0) return;
  }
}

// How many messages the nonce at fields[at] is the first of: the file has a MAC for each, up to the next nonce.
std::size_t messages_from(const std::vector<model::Field>& fields, std::size_t at) {
  std::size_t messages = 0;
  while (++at < fields.size() && fields[at].name != "nonce") messages += fields[at].name == "mac" ? 1 : 0;
  return messages;
}

// The case that used the salt, or the nonce of one of the messages, in an earlier file.
std::optional<std::string> used_before(const std::vector<model::Field>& fields, std::size_t at, std::string value,
                                       const Case& item, RandomValues& random) {
  if (fields[at].name == "salt") return random.take_salt(value, item.id);
  std::optional<std::string> found;
  for (std::size_t left = messages_from(fields, at); left > 0; --left, increment(value)) {
    const auto before = random.take_nonce(*item.key_hex, value, item.id);
    if (before && *before != item.id) found = before;
  }
  return found;
}

// The model judges one file, and this compares nonces and salts across the files of a run. Under a passphrase, nonces
// are left out: every file has its own salt, and so its own key.
void check_random_values(std::span<const std::byte> file, const Case& item, RandomValues& random,
                         model::Description& description) {
  for (std::size_t at = 0; at < description.fields.size(); ++at) {
    const model::Field& field = description.fields[at];
    const bool is_nonce = field.name == "nonce" && item.key_hex;
    if (!is_nonce && field.name != "salt") continue;
    const auto bytes = file.subspan(field.offset, field.size);
    const std::string value(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto before = used_before(description.fields, at, value, item, random);
    if (!before || *before == item.id) continue;
    description.defects.push_back({.rule = std::string(is_nonce ? kNonceRule : kSaltRule),
                                   .offset = field.offset,
                                   .clause = model::Clause::kUsedBefore,
                                   .field = is_nonce ? "nonce" : "salt",
                                   .got = model::Words{*before},
                                   .kind = model::Defect::Kind::kWriter});
  }
}

// The model takes what any writer may have been asked for.
void check_derivations(model::Description& description) {
  for (const model::Field& field : description.fields) {
    const bool is_memory = field.name == "memlimit";
    if (!is_memory && field.name != "opslimit") continue;
    const std::uint64_t least = is_memory ? kMemlimitLeastBytes : kOpslimitLeast;
    const std::uint64_t number = std::stoull(field.value);
    if (number >= least) continue;
    description.defects.push_back({.rule = std::string(kDerivationRule),
                                   .offset = field.offset,
                                   .clause = model::Clause::kValue,
                                   .field = is_memory ? "memlimit" : "opslimit",
                                   .got = number,
                                   .wanted = model::Words{fmt::format("at least {} in writers", least)},
                                   .kind = model::Defect::Kind::kWriter});
  }
}

std::uint64_t data_bytes_of(const Json& specification) {
  std::uint64_t size_bytes = 0;
  for (const Json& tensor : specification.at("tensors")) {
    if (!tensor.at("data").is_null()) size_bytes += tensor["data"].at("length").get<std::uint64_t>();
  }
  return size_bytes;
}

Json specification_of(const Manifest& manifest, const Case& item) {
  const std::vector<std::byte> text = read_case_file(manifest, item);
  try {
    return Json::parse(reinterpret_cast<const char*>(text.data()),
                       reinterpret_cast<const char*>(text.data()) + text.size());
  } catch (const Json::exception& error) {
    throw EnvironmentError(fmt::format("case {}: {}: {}", item.id, item.path.string(), error.what()));
  }
}

// Writes what an adapter wrote next to its specification, for people, if it was a file to judge. The adapter itself
// worked in a place that does not tell it the case.
void keep(const Json& specification, const std::string& name, const std::optional<std::vector<std::byte>>& written,
          const fs::path& to) {
  const ScratchDirectory directory(to);
  write_specification(specification, directory.path());
  const fs::path kept = directory.path() / name;
  if (written) {
    write_file(kept, model::text_of(*written));
    return;
  }
  std::error_code error;
  // An earlier run has written it. A directory of this name is not ours to empty.
  fs::remove(kept, error);
  if (error) throw EnvironmentError(fmt::format("{}: cannot be removed: {}", kept.string(), error.message()));
}

// The files in a directory, and what is in them.
std::map<fs::path, std::vector<std::byte>> contents_in(const fs::path& directory) {
  std::map<fs::path, std::vector<std::byte>> contents;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    contents[entry.path()] = read_file(entry.path());
  }
  return contents;
}

}  // namespace

std::optional<std::string> RandomValues::take_nonce(const std::string& key_hex, const std::string& nonce,
                                                    const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto [entry, first] = nonces_.try_emplace({key_hex, nonce}, id);
  return first ? std::nullopt : std::optional(entry->second);
}

std::optional<std::string> RandomValues::take_salt(const std::string& salt, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto [entry, first] = salts_.try_emplace(salt, id);
  return first ? std::nullopt : std::optional(entry->second);
}

Step run_encode_case(const Manifest& manifest, const Case& item, const Adapter& adapter, const Limits& limits,
                     const std::optional<fs::path>& kept, RandomValues& random) {
  return run_encode_case(specification_of(manifest, item), item, expected_of(item), adapter, limits, kept, random);
}

Step run_encode_case(const Json& specification, const Case& item, const std::optional<Json>& expected,
                     const Adapter& adapter, const Limits& limits, const std::optional<fs::path>& kept,
                     RandomValues& random) {
  const ScratchDirectory directory(ScratchDirectory::Place::kCaseRoot);
  const Question question = {.command = Command::kEncode,
                             .file = write_specification(specification, directory.path()),
                             .out = directory.path() / out_name(item),
                             .directory = directory.path(),
                             .key_hex = item.key_hex,
                             .passphrase = item.passphrase,
                             .feed = nullptr};
  const auto given = contents_in(directory.path());
  Step step = adapter.ask(question, limits);
  // It may have left anything under these names.
  step.changed_file = !std::ranges::all_of(given, [](const auto& file) { return holds(file.first, file.second); });
  std::error_code none;
  const bool is_written = fs::symlink_status(question.out, none).type() != fs::file_type::not_found;
  std::optional<std::vector<std::byte>> content;
  model::Description description;
  try {
    if (is_written) content = read_file(question.out, data_bytes_of(specification) + kOverheadMaxBytes);
  } catch (const EnvironmentError& error) {
    // Whatever the adapter left under that name is its own fault.
    description.defects.push_back(
        {.rule = std::string(format_of_layout(item.layout).first_rule), .wanted = model::Words{error.what()}});
  }
  if (kept) keep(specification, out_name(item), content, *kept / item.id);
  if (content) {
    description = describe_written(*content, item, specification);
    check_random_values(*content, item, random, description);
    check_derivations(description);
    step.written = {content->size(), sha256_of(*content)};
  }
  judge_encode_step(item, expected, adapter.profile(), is_written ? &description : nullptr, step);
  if (is_written && is_failure(step.outcome)) {
    step.explanation = explain(item, step, content.value_or(std::vector<std::byte>()), description);
  }
  return step;
}

}  // namespace tzmark::conformance
