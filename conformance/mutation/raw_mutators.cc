// Changes single fields, or the file as a sequence of bytes. Nothing that depends on them follows.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/text.h"
#include "mutation/file_parts.h"
#include "mutation/mutators.h"
#include "mutation/odd_values.h"

namespace tzmark::conformance::mutation {
namespace {

using model::Field;

// A run of fields of one structure.
struct Range {
  std::string structure;
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::ptrdiff_t at(std::size_t place) { return static_cast<std::ptrdiff_t>(place); }

class RawChange {
 public:
  RawChange(const Seed& seed, Random& random)
      : bytes_(seed.bytes), fields_(seed.description.fields), random_(&random) {}

  FileChange make() {
    std::vector<FilePart> parts = {FilePart::kFile};
    for (const Field& field : fields_) {
      if (std::ranges::find(parts, part_of(field)) == parts.end()) parts.push_back(part_of(field));
    }
    const FilePart part = random_->pick(parts);
    if (part == FilePart::kFile && !random_->one_in(6)) {
      change_file();
    } else {
      change_field(part);
    }
    return {std::move(bytes_), part, std::move(text_)};
  }

 private:
  // A field of the part, or one number of a row.
  std::optional<Field> pick_field(FilePart part) {
    std::vector<const Field*> candidates;
    for (const Field& field : fields_) {
      if (part_of(field) == part) candidates.push_back(&field);
    }
    if (candidates.empty()) return std::nullopt;
    Field field = *random_->pick_by_kind(
        candidates, [](const Field* each) { return without_digits(each->structure + ": " + each->name); });
    if (field.numbers > 0) {
      field.size /= field.numbers;
      const std::uint64_t number = random_->below(field.numbers);
      field.offset += number * field.size;
      field.name += fmt::format("[{}]", number);
    }
    return field;
  }

  static bool is_number(const Field& field) {
    const bool fits = field.size == 1 || field.size == 2 || field.size == 4 || field.size == 8;
    const bool text = field.name == "name" || field.name == "dtype" || field.name == "data";
    return fits && !text;
  }

  std::string bytes_of(const Field& field) const {
    return std::string(model::text_of(model::Bytes(bytes_).subspan(field.offset, field.size)));
  }

  std::vector<std::uint64_t> other_numbers() const {
    std::vector<std::uint64_t> numbers = {bytes_.size()};
    for (const Field& field : fields_) {
      if (field.size == 8 && is_number(field)) {
        numbers.push_back(model::little_endian(model::Bytes(bytes_).subspan(field.offset, 8)));
      }
    }
    return numbers;
  }

  void change_field(FilePart part) {
    const std::optional<Field> field = pick_field(part);
    if (!field) return change_file();
    text_ = fmt::format("{}: {} at byte {}", field->structure, field->name, field->offset);
    if (random_->one_in(12)) return change_extent(*field);
    if (is_number(*field) && !random_->one_in(8)) return change_number(*field);
    const std::string old = bytes_of(*field);
    std::string changed = other_text(*field, old);
    changed.resize(old.size(), ' ');
    overwrite(field->offset, changed);
    text_ += fmt::format(" becomes {}", model::hex_folded(std::as_bytes(std::span(changed))));
  }

  std::string other_text(const Field& field, const std::string& old) {
    if (field.name == "name" && random_->one_in(2)) return odd_name(old, {old}, *random_);
    if (field.name == "dtype" && random_->one_in(2)) return odd_dtype(old, *random_);
    if (field.name == "feature flags") return odd_flags(old, *random_);
    if (random_->one_in(4)) {
      for (const Field& other : fields_) {
        if (other.name == field.name && other.offset != field.offset && other.size == field.size) {
          return bytes_of(other);
        }
      }
    }
    return odd_bytes(old, *random_);
  }

  void change_number(const Field& field) {
    const std::uint64_t old = model::little_endian(model::Bytes(bytes_).subspan(field.offset, field.size));
    const std::uint64_t number = odd_number(old, field.size, other_numbers(), *random_);
    for (std::size_t i = 0; i < field.size; ++i) {
      bytes_[field.offset + i] = static_cast<std::byte>(number >> 8 * i & 0xff);
    }
    text_ += fmt::format(" is {} and becomes {}", old, number);
  }

  // Everything after the field moves.
  void change_extent(const Field& field) {
    switch (random_->below(4)) {
      case 0:
        text_ += " is taken out";
        erase(field.offset, field.offset + field.size);
        break;
      case 1:
        text_ += " stands there twice";
        insert(field.offset, bytes_of(field));
        break;
      case 2:
        text_ += " is one byte shorter";
        erase(field.offset, field.offset + 1);
        break;
      default:
        text_ += " has a byte in front of it";
        insert(field.offset, std::string(1, static_cast<char>(random_->pick({0, 1, 0xff}))));
    }
  }

  std::vector<Range> ranges() const {
    std::vector<Range> found;
    for (const Field& field : fields_) {
      const std::string structure = field.structure.substr(0, field.structure.find(','));
      if (found.empty() || found.back().structure != structure) found.push_back({structure, field.offset, 0});
      found.back().end = field.offset + field.size;
    }
    return found;
  }

  void change_file() {
    const std::vector<Range> all = ranges();
    const std::size_t number = random_->below(all.size());
    const Range& range = all[number];
    const std::size_t size = bytes_.size();
    switch (random_->below(9)) {
      case 0:
        return cut(random_->pick(fields_).offset);
      case 1:
        return cut(random_->below(size));
      case 2:
        return cut(size - std::min<std::size_t>(size, 1 + random_->below(16)));
      case 3:
        return append();
      case 4:
        text_ = fmt::format("{} at byte {} is taken out", range.structure, range.begin);
        return erase(range.begin, range.end);
      case 5:
        text_ = fmt::format("{} at byte {} stands there twice", range.structure, range.begin);
        return insert(range.end, text(range));
      case 6:
        if (number + 1 == all.size()) return cut(range.begin);
        text_ = fmt::format("{} and {} change places", range.structure, all[number + 1].structure);
        std::rotate(bytes_.begin() + at(range.begin), bytes_.begin() + at(range.end),
                    bytes_.begin() + at(all[number + 1].end));
        return;
      case 7: {
        const Range& other = random_->pick(all);
        text_ = fmt::format("{} at byte {} is overwritten by {}", range.structure, range.begin, other.structure);
        return overwrite(range.begin, text(other).substr(0, range.end - range.begin));
      }
      default: {
        const std::size_t count = random_->pick<std::size_t>({1, 4, 8, 16, 64});
        text_ = fmt::format("{} zeros are put in at byte {}", count, range.begin);
        return insert(range.begin, std::string(count, '\0'));
      }
    }
  }

  void append() {
    const std::size_t count = random_->pick<std::size_t>({1, 7, 8, 9, 64, 4096});
    std::string tail(count, '\0');
    if (random_->one_in(2)) tail = odd_bytes(tail, *random_);
    if (random_->one_in(4)) tail = std::string(model::text_of(bytes_));
    text_ = fmt::format("{} bytes follow the end of the file", tail.size());
    insert(bytes_.size(), tail);
  }

  void cut(std::size_t size) {
    text_ = fmt::format("the file ends at byte {} and not at {}", size, bytes_.size());
    bytes_.resize(size);
  }

  std::string text(const Range& range) const {
    return std::string(model::text_of(model::Bytes(bytes_).subspan(range.begin, range.end - range.begin)));
  }

  void erase(std::size_t begin, std::size_t end) { bytes_.erase(bytes_.begin() + at(begin), bytes_.begin() + at(end)); }

  void insert(std::size_t place, const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.begin() + at(place), bytes.begin(), bytes.end());
  }

  void overwrite(std::size_t place, const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    std::ranges::copy(bytes, bytes_.begin() + at(place));
  }

  std::vector<std::byte> bytes_;
  const std::vector<Field>& fields_;
  Random* random_;
  std::string text_;
};

}  // namespace

FileChange change_raw(const Seed& seed, Random& random) { return RawChange(seed, random).make(); }

}  // namespace tzmark::conformance::mutation
