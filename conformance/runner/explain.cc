// Shows where a failure is in the file; see explain.h.
#include "runner/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace tzmark::conformance {
namespace {

// Enough on each side to see the structure that the byte is in, few enough to be read.
constexpr std::size_t kFieldsAround = 4;

constexpr std::size_t kKeyBytes = 32;

// Where a member of canonical JSON comes from: a structure of its tensor, and a field of that.
struct Origin {
  std::string_view member;
  std::string_view structure;
  std::string_view field;
  std::uint64_t size = 0;  // of the field, where several have its name
};

constexpr std::array kOrigins = {
    Origin{"data_version", "file header", "data version"},
    Origin{"path", "index entry", "name"},
    Origin{"kind", "index entry", "kind"},
    Origin{"module_index", "tensor header", "module_index"},
    Origin{"dtype", "index entry", "dtype"},
    Origin{"wire_dtype", "index entry", "dtype"},
    Origin{"shape", "index entry", "ndim"},
    Origin{"meta", "index entry", "data_length"},
    Origin{"data_length", "index entry", "data_length"},
    Origin{"sha256", "tensor", "data"},
    // Of safetensors.
    Origin{"path", "tensor", "name"},
    Origin{"dtype", "tensor", "dtype"},
    Origin{"wire_dtype", "tensor", "dtype"},
    Origin{"shape", "tensor", "shape"},
    Origin{"data_length", "tensor", "data_offsets"},
    Origin{"crc32_field", "tensor header", "hash value", 4},
    Origin{"sha256_field", "tensor header", "hash value", 32},
};

// The words of a JSON pointer; names in canonical JSON need no unescaping.
std::vector<std::string_view> words_of(std::string_view pointer) {
  std::vector<std::string_view> words;
  while (!pointer.empty()) {
    const std::size_t end = std::min(pointer.find('/', 1), pointer.size());
    words.push_back(pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
  }
  return words;
}

// Where the bytes are that a member at this pointer says; nothing if the file has none.
std::optional<std::uint64_t> offset_of_member(const model::Description& description, std::string_view pointer) {
  const std::vector<std::string_view> words = words_of(pointer);
  if (words.empty()) return std::nullopt;
  const bool of_tensor = words.size() >= 3 && words[0] == "tensors";
  const std::string_view member = of_tensor ? words[2] : words[0];
  for (const Origin& origin : kOrigins) {
    if (origin.member != member) continue;
    const std::string structure =
        of_tensor ? fmt::format("{} {}", origin.structure, words[1]) : std::string(origin.structure);
    for (const model::Field& field : description.fields) {
      // "tensor header 2, hash 0" is a part of "tensor header 2".
      const bool inside = field.structure == structure || field.structure.starts_with(structure + ",");
      const bool fits = origin.size == 0 || origin.size == field.size;
      if (inside && fits && field.name == origin.field) return field.offset;
    }
  }
  return std::nullopt;
}

// The rule that a failure breaks if nothing in the file or the answer shows one: that of the case. A valid file
// exercises its rules alike, so that only a single one can be meant.
std::string rule_of(const Case& item) {
  const bool known = item.verdict == Verdict::kValid ? item.rules.size() == 1 : !item.rules.empty();
  return known ? item.rules.front() : "";
}

// The defect that the case is about, or else the first.
const model::Defect* defect_of(const Case& item, const model::Description& description) {
  const auto& defects = description.defects;
  const auto found = std::ranges::find_if(defects, [&](const model::Defect& defect) {
    return std::ranges::find(item.rules, defect.rule) != item.rules.end();
  });
  if (found != defects.end()) return &*found;
  return defects.empty() ? nullptr : &defects.front();
}

Explanation explain_without_bytes(const Case& item, const Step& step, const model::Description& description) {
  if (step.answer.kind == AnswerKind::kRejected) {
    const Rejection& rejection = step.answer.rejection;
    return {rejection.rule.value_or(""), rejection.offset, rejection.message, {}};
  }
  if (step.difference) {
    return {rule_of(item), offset_of_member(description, step.difference->pointer), step.reason, {}};
  }
  // What was written is judged by its first defect, what was read by the one that the case is about.
  const bool written = step.command == Command::kEncode && !description.defects.empty();
  if (const auto* defect = written ? &description.defects.front() : defect_of(item, description)) {
    return {defect->rule, defect->offset, model::sentence_of(*defect), {}};
  }
  return {rule_of(item), std::nullopt, item.why, {}};
}

}  // namespace

model::Secret secret_of(const Case& item) {
  model::Secret secret;
  secret.passphrase = item.passphrase;
  if (!item.key_hex || item.key_hex->size() != 2 * kKeyBytes) return secret;
  secret.key.emplace();
  for (std::size_t i = 0; i < kKeyBytes; ++i) {
    const char* const digits = item.key_hex->data() + 2 * i;
    std::from_chars(digits, digits + 2, (*secret.key)[i], 16);
  }
  return secret;
}

std::optional<Explanation> explain(const Case& item, const Step& step, std::span<const std::byte> file,
                                   const model::Description& description) {
  Explanation explanation = explain_without_bytes(item, step, description);
  if (explanation.offset && *explanation.offset <= file.size()) {
    explanation.bytes = model::annotate(description, file, *explanation.offset, kFieldsAround);
  }
  if (explanation.rule.empty() && explanation.bytes.empty()) return std::nullopt;
  return explanation;
}

}  // namespace tzmark::conformance
