// What a reader with a weak check would know about a defect; see event.h.
#include "planted_bugs/event.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <regex>

#include "model/text.h"

namespace tzmark::conformance::planted {
namespace {

constexpr std::size_t kVersionOffset = 5;
constexpr std::size_t kFlagsOffset = 9;
constexpr std::size_t kCountOffset = 57;
constexpr std::size_t kFileHeaderBytes = 65;

std::optional<std::size_t> number_after(std::string_view text, std::string_view word) {
  const std::size_t at = text.find(word);
  if (at == text.npos) return std::nullopt;
  std::size_t number = 0;
  const std::string_view digits = text.substr(at + word.size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// "tensor header 0, hash 1"
std::string_view label_of(std::string_view message) { return message.substr(0, message.find(": ")); }

}  // namespace

Numbers numbers_in(const std::string& text) {
  Numbers numbers;
  static const std::regex digits("[0-9]+");
  for (std::sregex_iterator at(text.begin(), text.end(), digits), end; at != end; ++at) {
    numbers.push_back(std::strtoull(at->str().c_str(), nullptr, 10));
  }
  return numbers;
}

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

std::optional<std::size_t> Event::tensor() const {
  const std::string_view label = label_of(defect.message);
  const auto entry = number_after(label, "index entry ");
  return entry ? entry : number_after(label, "tensor header ");
}

std::optional<std::pair<std::size_t, std::size_t>> Event::item() const {
  if (!tensor()) return std::nullopt;
  const std::string header = fmt::format("tensor header {}", *tensor());
  // The structure around the defect is in the message, or is that of the field at its offset.
  std::string label(label_of(defect.message));
  std::string name;
  for (const model::Field& field : subject.description.fields) {
    if (field.offset != defect.offset || !field.structure.starts_with(header)) continue;
    name = field.name;
    if (label.find(',') == label.npos) label = field.structure;
  }
  if (name == "mac") {
    const auto macs = subject.all(header, name);
    const auto here = std::ranges::find(macs, defect.offset, [](const auto* field) { return field->offset; });
    return std::pair(static_cast<std::size_t>(here - macs.begin()), macs.size());
  }
  const std::pair<std::string, std::string> kinds[] = {{"hash", "hash_count"}, {"crypt chunk", "chunk_count"}};
  for (const auto& [kind, count] : kinds) {
    const auto number = number_after(label, ", " + kind + " ");
    if (number)
      return std::pair(*number, std::max<std::size_t>(subject.number(header, count).value_or(0), *number + 1));
  }
  return std::nullopt;
}

std::string Event::in_index(const std::string& name) const {
  return tensor() ? subject.text(fmt::format("index entry {}", *tensor()), name) : "";
}

std::string Event::in_header(const std::string& name) const {
  return tensor() ? subject.text(fmt::format("tensor header {}", *tensor()), name) : "";
}

Numbers Event::numbers() const {
  Numbers numbers = numbers_in(defect.message.substr(std::min(label_of(defect.message).size(), defect.message.size())));
  numbers.resize(std::max<std::size_t>(numbers.size(), 2));
  return numbers;
}

std::string Event::bytes_there() const {
  const std::size_t at = std::min<std::size_t>(defect.offset.value_or(0), subject.bytes.size());
  return std::string(model::text_of(model::Bytes(subject.bytes).subspan(at)));
}

}  // namespace tzmark::conformance::planted
