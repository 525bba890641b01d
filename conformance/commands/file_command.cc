// tzmark conform --file; see file_command.h.
#include "commands/file_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>

#include "commands/secret_files.h"
#include "model/text.h"
#include "mutation/assess.h"
#include "mutation/choices.h"
#include "program/local_name.h"
#include "runner/console.h"
#include "runner/errors.h"
#include "runner/file_content.h"
#include "runner/file_format.h"
#include "runner/report.h"
#include "runner/sha256.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;
using mutation::Assessment;

constexpr int kFileVerdictVersion = 1;
constexpr std::size_t kFieldsAroundDefect = 2;
constexpr std::size_t kLineMaxBytes = 300;
constexpr std::size_t kValueMaxBytes = 120;
// A damaged file may break a rule in every tensor.
constexpr std::size_t kDefectsShownMax = 50;

// A file, what the model says about it, and what the adapter does.
struct FileVerdict {
  std::string name;  // as the user gave it
  std::vector<std::byte> content;
  const FileFormat* format = nullptr;
  Manifest manifest;  // of the directory of the file, with the rules of the corpus
  Assessment assessment;
  CaseResult result;
};

std::string_view kind_of(const model::Defect& defect) {
  constexpr std::array<std::string_view, 4> kNames = {"structure", "authentication", "integrity", "writer"};
  return kNames[static_cast<std::size_t>(defect.kind)];
}

// Who rejects a file with such a defect.
std::string_view consequence_of(const FileVerdict& verdict, const model::Defect& defect) {
  const bool open = required_verdict(verdict.assessment.item) == Verdict::kImplementationDefined;
  if (open && model::refuses_verify(defect)) return "a reader may reject the file for it or not: the choice is open";
  constexpr std::array<std::string_view, 4> kTexts = {
      "a reader rejects the file", "a reader rejects the file with this key, or without one", "verify rejects the file",
      "a reader accepts the file, and a writer must not write it"};
  return kTexts[static_cast<std::size_t>(defect.kind)];
}

// What the verdict requires, as in the table of PROTOCOL.md.
std::string_view requirement_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kValid:
      return "decode and verify must accept it";
    case Verdict::kIntegrityFailure:
      return "verify must reject it; decode may accept it";
    case Verdict::kImplementationDefined:
      return "the format leaves it to the reader";
    default:
      return "decode and verify must reject it";
  }
}

const Rule* rule_of(const FileVerdict& verdict, const std::string& id) {
  const auto found = verdict.manifest.rules.find(id);
  return found == verdict.manifest.rules.end() ? nullptr : &found->second;
}

std::vector<model::Annotated> bytes_of(const FileVerdict& verdict, const model::Defect& defect) {
  if (!defect.offset || *defect.offset > verdict.content.size()) return {};
  return model::annotate(verdict.assessment.description, verdict.content, *defect.offset, kFieldsAroundDefect);
}

std::string layout_of(const FileVerdict& verdict) {
  const std::string& layout = verdict.assessment.description.layout;
  return layout.empty() ? "no layout" : "layout " + layout;
}

std::string text_of(const FileVerdict& verdict, const model::Defect& defect) {
  std::string text =
      fmt::format("\n{}{}: {}\n    {}\n", defect.rule, defect.offset ? fmt::format(" at byte {}", *defect.offset) : "",
                  one_line(model::sentence_of(defect), kLineMaxBytes), consequence_of(verdict, defect));
  if (const Rule* const rule = rule_of(verdict, defect.rule)) {
    text += fmt::format("    {}: {} ({}): {}\n", verdict.format->document, rule->level, rule->binds, rule->text);
  }
  for (const model::Annotated& row : bytes_of(verdict, defect)) {
    text += fmt::format("  {} byte {}: {}, {}{}\n", row.marked ? '>' : ' ', row.offset, row.field, row.hex,
                        row.value.empty() ? "" : " = " + one_line(row.value, kValueMaxBytes));
  }
  return text;
}

std::string text_of(const Step& step) {
  std::string answer(name_of(step.answer.kind));
  const Rejection& rejection = step.answer.rejection;
  if (step.answer.kind == AnswerKind::kRejected) {
    answer += fmt::format(" for {}{}: {}", rejection.rule.value_or("no rule"),
                          rejection.offset ? fmt::format(" at byte {}", *rejection.offset) : "",
                          one_line(rejection.message, kLineMaxBytes));
  } else if (step.answer.kind == AnswerKind::kNone) {
    answer = "no answer";
  }
  std::string text = fmt::format("    {}: {}\n", label(step.command, step.mode), answer);
  if (step.outcome != Outcome::kPass) text += fmt::format("        {}: {}\n", name_of(step.outcome), step.reason);
  return text;
}

std::string text_of(const FileVerdict& verdict, const Adapter& adapter) {
  const Case& item = verdict.assessment.item;
  const auto& defects = verdict.assessment.description.defects;
  const std::string shards = item.shards.empty() ? "" : fmt::format(" and {} shards", item.shards.size());
  std::string text = fmt::format("{}: {} bytes{}, {}: {}\n    {}\n", verdict.name, verdict.content.size(), shards,
                                 layout_of(verdict), name_of(item.verdict), requirement_of(required_verdict(item)));
  if (item.policy) text += fmt::format("    by the policy {}={}\n", item.choice_name.value(), name_of(*item.policy));
  for (const std::string& name : verdict.assessment.choices) {
    text += fmt::format("    open choice {}: {}\n", name, mutation::open_choices().at(name).text);
  }
  if (verdict.assessment.choices.empty()) text += "    no open choice\n";
  if (defects.empty()) text += "    it breaks no rule\n";
  for (std::size_t i = 0; i < std::min(defects.size(), kDefectsShownMax); ++i) text += text_of(verdict, defects[i]);
  if (defects.size() > kDefectsShownMax) {
    text += fmt::format("\nand {} more, which --json FILE has\n", defects.size() - kDefectsShownMax);
  }
  text += fmt::format("\n{} {}\n", adapter.profile().name, adapter.profile().version) + containment_lines(adapter);
  const CaseResult& result = verdict.result;
  if (result.steps.empty()) return text + fmt::format("    not asked: {}\n", result.reason);
  for (const Step& step : result.steps) text += text_of(step);
  if (result.outcome == Outcome::kSkipped) return text + fmt::format("skipped: {}\n", result.reason);
  return text + (is_failure(result.outcome) ? "differs from the verdict\n" : "agrees with the verdict\n");
}

Json json_of(const FileVerdict& verdict, const Adapter& adapter, const InputModeOptions& input) {
  const Case& item = verdict.assessment.item;
  const CaseResult& result = verdict.result;
  Json defects = Json::array();
  for (const model::Defect& defect : verdict.assessment.description.defects) {
    Json bytes = Json::array();
    for (const model::Annotated& row : bytes_of(verdict, defect)) {
      bytes.push_back({{"offset", row.offset},
                       {"hex", row.hex},
                       {"field", row.field},
                       {"value", one_line(row.value, kLineMaxBytes)},
                       {"marked", row.marked}});
    }
    const Rule* const rule = rule_of(verdict, defect.rule);
    defects.push_back({{"rule", defect.rule},
                       {"kind", kind_of(defect)},
                       {"offset", or_null(defect.offset)},
                       {"message", one_line(model::sentence_of(defect), kLineMaxBytes)},
                       {"text", or_null(rule ? rule->text : "")},
                       {"bytes", bytes}});
  }
  Json choices = Json::array();
  for (const std::string& name : verdict.assessment.choices) choices.push_back(mutation::open_choices().at(name).text);
  Json shapes = Json::array();
  for (const InputMode mode : input.modes) shapes.push_back(name_of(mode));
  Json steps = Json::array();
  for (const Step& step : result.steps) steps.push_back(describe(step));
  return {{"schema", "tzmark-file-verdict"},
          {"schema_version", kFileVerdictVersion},
          {"tzmark_version", TZMARK_VERSION},
          {"file", {{"path", verdict.name}, {"size_bytes", item.size_bytes}, {"sha256", item.sha256}}},
          {"layout", or_null(verdict.assessment.description.layout)},
          {"features", item.features},
          {"verdict", name_of(item.verdict)},
          {"open_choices", choices},
          {"choice_names", verdict.assessment.choices},
          {"policy", item.policy ? Json(name_of(*item.policy)) : Json()},
          {"defects", defects},
          {"expected", verdict.assessment.expected.value_or(Json())},
          {"adapter", describe(adapter)},
          {"shapes", shapes},
          {"outcome", name_of(result.outcome)},
          {"reason", or_null(result.reason)},
          {"choice", or_null(result.choice())},
          {"steps", steps}};
}

// Replaces the secrets of a file where the adapter printed them, for reports are passed on.
class Mask {
 public:
  explicit Mask(const Case& item) {
    constexpr std::size_t kTellingBytesMin = 4;  // less is in any text
    for (const auto& secret : {item.key_hex, item.passphrase}) {
      if (secret && secret->size() >= kTellingBytesMin) secrets_.push_back(*secret);
    }
  }

  void hide_in(CaseResult& result) const {
    hide_in(result.reason);
    for (Step& step : result.steps) {
      for (std::string* text :
           {&step.reason, &step.process.stderr_tail, &step.answer.text, &step.answer.rejection.message}) {
        hide_in(*text);
      }
      if (step.answer.rejection.rule) hide_in(*step.answer.rejection.rule);
      Json* const got = step.difference && step.difference->got ? &*step.difference->got : nullptr;
      if (got != nullptr && got->is_string()) hide_in(got->get_ref<std::string&>());
    }
  }

 private:
  void hide_in(std::string& text) const {
    constexpr std::string_view kInstead = "(secret)";
    for (const std::string& secret : secrets_) {
      for (std::size_t at = 0; (at = text.find(secret, at)) != text.npos; at += kInstead.size()) {
        text.replace(at, secret.size(), kInstead);
      }
    }
  }

  std::vector<std::string> secrets_;
};

// The memory that a reader may choose to derive a key with, beyond the limits of tzmark.
std::uint64_t open_memlimit(const Assessment& assessment) {
  if (std::ranges::find(assessment.choices, "derivation-cost") == assessment.choices.end()) return 0;
  std::uint64_t bytes = 0;
  for (const model::Field& field : assessment.description.fields) {
    if (field.name == "memlimit") bytes = std::max<std::uint64_t>(bytes, std::stoull(field.value));
  }
  return bytes;
}

// A file by its own name, with its directory as it is without links. Readers look for shards next to an index, so that
// a link to one leads to another model.
fs::path index_without_link(const std::string& name) {
  const fs::path index = fs::absolute(name).lexically_normal();
  std::error_code error;
  const fs::path directory = fs::canonical(index.parent_path(), error);
  if (error) throw EnvironmentError(fmt::format("{}: {}", name, error.message()));
  const fs::path file = directory / index.filename();
  if (fs::is_symlink(file)) throw EnvironmentError(fmt::format("{}: is a link: name a copy next to its shards", name));
  return file;
}

// Assesses a model of several files, and notes these: adapters may change them too.
Assessment assess_index(const fs::path& index, model::Bytes content) {
  std::map<std::string, ShardPath> opened;
  const auto open = [&](const std::string& name) {
    const fs::path file = index.parent_path() / name;
    std::error_code none;
    const fs::file_status status = fs::symlink_status(file, none);
    if (!fs::is_regular_file(status)) {
      throw EnvironmentError(fmt::format("{}: {}: a verdict needs all shards next to the index, and none a link",
                                         file.string(), fs::exists(status) ? "is not a file" : "is missing"));
    }
    const std::vector<std::byte> shard = read_file(file);
    opened[name] = {name, name, sha256_of(shard), shard.size()};
    return std::string(model::text_of(shard));
  };
  Assessment assessment = mutation::assess_sharded(content, open);
  for (auto& [name, shard] : opened) assessment.item.shards.push_back(std::move(shard));
  return assessment;
}

FileVerdict load_file(const FileArguments& arguments, const RunOptions& run, const fs::path& prefix) {
  FileVerdict verdict;
  verdict.name = arguments.file;
  std::error_code error;
  const bool is_index = is_index_name(arguments.file);
  const fs::path file = is_index ? index_without_link(arguments.file) : fs::canonical(arguments.file, error);
  if (error) throw EnvironmentError(fmt::format("{}: {}", arguments.file, error.message()));
  const mutation::FileSecret secret = secret_of_files(arguments.key_file, arguments.passphrase_file);
  verdict.content = read_file(file);
  verdict.format = &format_of_file(verdict.content, arguments.file);
  const FileFormat& format = *verdict.format;
  CorpusOptions corpus = run.corpus;
  if (corpus.directory.empty()) corpus.format = format.name;
  verdict.manifest = load_corpus(corpus, prefix);
  verdict.manifest.cases.clear();
  verdict.manifest.directory = file.parent_path();
  verdict.assessment = is_index ? assess_index(file, verdict.content)
                                : mutation::assess(format, verdict.content, secret.key_hex, secret.passphrase);
  Case& item = verdict.assessment.item;
  item.key_hex = secret.key_hex;
  item.passphrase = secret.passphrase;
  std::uint64_t size_bytes = verdict.content.size();
  for (const ShardPath& shard : item.shards) size_bytes += shard.size_bytes;
  run.policy.policies(verdict.manifest).apply(verdict.assessment.choices, item);
  item.id = file.filename().string();
  item.path = file.filename();
  item.sha256 = sha256_of(verdict.content);
  item.limits = limits_for_file(size_bytes, secret.passphrase.has_value());
  item.limits.memory_max_bytes += open_memlimit(verdict.assessment);
  return verdict;
}

}  // namespace

void add_file_options(CLI::App& app, FileArguments& arguments) {
  CLI::Option* const file =
      app.add_option("--file", arguments.file,
                     "judge this file instead of the corpus: the model's verdict, and the adapter's answers")
          ->type_name("FILE")
          ->check(why_not_local);
  for (const char* name : {"--format", "--only", "--layout", "--rule", "--keep", "--known", "--html", "--junit",
                           "--tap", "--badge", "--summary", "--annotations", "--repro", "--max-skipped", "--list"}) {
    file->excludes(app.get_option(name));
  }
  CLI::Option* const key =
      app.add_option("--key-file", arguments.key_file, "key of --file: 32 raw bytes or 64 hex digits")
          ->type_name("F")
          ->needs(file)
          ->check(why_not_local);
  app.add_option("--passphrase-file", arguments.passphrase_file, "passphrase of --file")
      ->type_name("F")
      ->check(why_not_local)
      ->needs(file)
      ->excludes(key);
}

int run_on_file(const FileArguments& arguments, const RunOptions& run, const fs::path& prefix,
                const std::atomic<bool>& cancelled) {
  const InputModeOptions input = run.input(prefix);
  FileVerdict verdict = load_file(arguments, run, prefix);
  std::vector<std::string> inputs = run.input_files(verdict.manifest);
  inputs.insert(inputs.end(), {arguments.file, arguments.key_file, arguments.passphrase_file});
  check_output_files({run.json_file}, inputs);
  check_input_modes(input, cancelled);
  const Adapter adapter = run.adapter.start(prefix, cancelled);
  SuiteOptions options;
  options.limits = run.limits;
  options.input = input;
  options.secrets_are_public = false;
  const Assessment& assessment = verdict.assessment;
  verdict.result =
      run_file_case(verdict.manifest, assessment.item, verdict.content, assessment.expected, adapter, options);
  if (cancelled) throw EnvironmentError("stopped");
  Mask(assessment.item).hide_in(verdict.result);
  print_text(text_of(verdict, adapter));
  if (!run.json_file.empty()) write_output_file(run.json_file, dump_lines(json_of(verdict, adapter, input)));
  const Outcome outcome = verdict.result.outcome;
  if (outcome == Outcome::kSkipped) tell(fmt::format("{}: not judged: {}", arguments.file, verdict.result.reason));
  return outcome == Outcome::kPass || outcome == Outcome::kImplementationDefined ? 0 : 1;
}

}  // namespace tzmark::conformance
