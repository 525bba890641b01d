// Runs one encode case; see encode.h.
#include "encode.h"

#include "explain.h"
#include "file_content.h"
#include "scratch_folder.h"
#include "sha256.h"
#include "specification.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLowestVersionRule = "TZR-HDR-006";

// What the adapter left under the name that it was given; nothing if that is no file.
std::optional<FileContent> written_content(const fs::path& out) {
  std::error_code gone;
  if (!fs::is_regular_file(out, gone)) return std::nullopt;
  return FileContent(out);
}

// The model cannot know that a higher data version was asked for.
model::Description describe_written(std::span<const std::byte> file, const Case& item, const Json& specification) {
  model::Description description = model::describe(file, secret_of(item));
  if (specification.at("layout") == description.layout) {
    std::erase_if(description.defects, [](const model::Defect& defect) { return defect.rule == kLowestVersionRule; });
  }
  return description;
}

}  // namespace

Step run_encode_case(const Manifest& manifest, const Case& item, const Adapter& adapter,
                     std::chrono::nanoseconds elapsed_max, std::uint64_t memory_max_bytes,
                     const std::optional<fs::path>& kept) {
  const ScratchFolder folder(kept ? std::optional(*kept / item.id) : std::nullopt);
  const Json specification = read_json(manifest.directory / item.path);
  const Question question = {.command = Command::kEncode,
                             .file = write_specification(specification, folder.path()),
                             .out = folder.path() / "out.tensors",
                             .key_hex = item.key_hex,
                             .passphrase = item.passphrase,
                             .feed = nullptr};
  Step step = adapter.ask(question, elapsed_max, memory_max_bytes);
  const std::optional<FileContent> content = written_content(question.out);
  if (!content) {
    judge_encode_step(item, load_expected(manifest, item), adapter.profile(), nullptr, step);
    return step;
  }
  step.written = {content->bytes().size(), sha256_of_file(question.out)};
  const model::Description description = describe_written(content->bytes(), item, specification);
  judge_encode_step(item, load_expected(manifest, item), adapter.profile(), &description, step);
  if (is_failure(step.outcome)) step.explanation = explain(item, step, content->bytes(), description);
  return step;
}

}  // namespace tzmark::conformance
