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

// What the adapter left under the name that it was given; nothing if that is no file.
std::optional<FileContent> written_content(const fs::path& out) {
  std::error_code gone;
  if (!fs::is_regular_file(out, gone)) return std::nullopt;
  return FileContent(out);
}

}  // namespace

Step run_encode_case(const Manifest& manifest, const Case& item, const Adapter& adapter,
                     std::chrono::nanoseconds elapsed_max, std::uint64_t memory_max_bytes,
                     const std::optional<fs::path>& kept) {
  const ScratchFolder folder(kept ? std::optional(*kept / item.id) : std::nullopt);
  const Question question = {.command = Command::kEncode,
                             .file = write_specification(read_json(manifest.directory / item.path), folder.path()),
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
  const model::Description description = model::describe(content->bytes(), secret_of(item));
  judge_encode_step(item, load_expected(manifest, item), adapter.profile(), &description, step);
  if (is_failure(step.outcome)) step.explanation = explain(item, step, content->bytes(), description);
  return step;
}

}  // namespace tzmark::conformance
