// What a reader with a weak check would know about a defect; see event.h.
#include "planted_bugs/event.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "model/text.h"

namespace tzmark::conformance::planted {
namespace {

constexpr std::size_t kVersionOffset = 5;
constexpr std::size_t kFlagsOffset = 9;
constexpr std::size_t kCountOffset = 57;
constexpr std::size_t kFileHeaderBytes = 65;

}  // namespace

std::uint64_t little_endian(std::string_view bytes) { return model::little_endian(std::as_bytes(std::span(bytes))); }

Subject::Subject(model::CorpusCase corpus_case, std::size_t number_of_question)
    : item(std::move(corpus_case)),
      bytes(model::bytes_of(item.file)),
      description(model::describe(bytes, item.secret)),
      question(number_of_question) {}

bool Subject::encrypted() const {
  if (bytes.size() < kCountOffset) return false;
  const auto version = std::to_integer<int>(bytes[kVersionOffset]);
  return version == 3 || (version >= 4 && (bytes[kFlagsOffset] & std::byte{1}) != std::byte{0});
}

std::uint64_t Subject::tensor_count() const {
  return bytes.size() < kFileHeaderBytes ? 0 : model::little_endian(model::Bytes(bytes).subspan(kCountOffset, 8));
}

std::string Subject::file_header() const {
  return std::string(model::text_of(model::Bytes(bytes).first(std::min(bytes.size(), kFileHeaderBytes))));
}

std::vector<const model::Field*> Subject::all(std::string_view structure, std::string_view name) const {
  std::vector<const model::Field*> found;
  for (const model::Field& field : description.fields) {
    const bool here = field.structure == structure ||
                      (field.structure.starts_with(structure) && field.structure[structure.size()] == ',');
    if (here && field.name == name) found.push_back(&field);
  }
  return found;
}

std::string Subject::text(const std::string& structure, const std::string& name) const {
  const auto found = all(structure, name);
  if (found.empty()) return "";
  return std::string(model::text_of(model::Bytes(bytes).subspan(found[0]->offset, found[0]->size)));
}

std::optional<std::uint64_t> Subject::number(const std::string& structure, const std::string& name) const {
  const std::string value = text(structure, name);
  if (value.empty() || value.size() > 8) return std::nullopt;
  return little_endian(value);
}

std::optional<std::size_t> Event::other() const {
  using model::Clause;
  const bool has_other =
      defect.clause == Clause::kSamePath || defect.clause == Clause::kPathInside || defect.clause == Clause::kPathMixed;
  return has_other ? std::optional(numbers()[0]) : std::nullopt;
}

std::optional<std::pair<std::size_t, std::size_t>> Event::item() const {
  if (!tensor()) return std::nullopt;
  const std::string header = fmt::format("tensor header {}", *tensor());
  if (defect.clause == model::Clause::kMac) {
    const auto macs = subject.all(header, "mac");
    const auto here = std::ranges::find(macs, defect.offset, [](const auto* field) { return field->offset; });
    return std::pair(static_cast<std::size_t>(here - macs.begin()), macs.size());
  }
  const auto& [name, unused, item, number] = defect.structure;
  if (item.empty()) return std::nullopt;
  const std::uint64_t count = subject.number(header, item == "hash" ? "hash_count" : "chunk_count").value_or(0);
  return std::pair(number, std::max<std::size_t>(count, number + 1));
}

std::string Event::in_index(const std::string& name) const {
  return tensor() ? subject.text(fmt::format("index entry {}", *tensor()), name) : "";
}

std::string Event::in_header(const std::string& name) const {
  return tensor() ? subject.text(fmt::format("tensor header {}", *tensor()), name) : "";
}

Numbers Event::numbers() const {
  Numbers numbers = model::numbers_of(defect.got);
  const Numbers wanted = model::numbers_of(defect.wanted);
  numbers.insert(numbers.end(), wanted.begin(), wanted.end());
  numbers.resize(std::max<std::size_t>(numbers.size(), 2));
  return numbers;
}

std::string_view Event::text() const {
  const auto* bytes = std::get_if<std::string>(&defect.got);
  return bytes ? *bytes : std::string_view();
}

std::string Event::bytes_there() const {
  const std::size_t at = std::min<std::size_t>(defect.offset.value_or(0), subject.bytes.size());
  return std::string(model::text_of(model::Bytes(subject.bytes).subspan(at)));
}

}  // namespace tzmark::conformance::planted
