// The JSON and the data of a safetensors file; see safetensors_draft.h.
#include "mutation/safetensors_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "model/text.h"
#include "mutation/blob.h"
#include "safetensors_model/dtypes.h"

namespace tzmark::conformance::mutation {
namespace {

using Kind = JsonValue::Kind;

// The largest size that a changed tensor gets.
constexpr std::uint64_t kDataBytesMax = std::uint64_t{1} << 30;
constexpr unsigned kDepthMax = 300;
// Each takes some 300 bytes, and a header may consist of commas.
constexpr std::size_t kItemsMax = 1'000'000;

struct TooMuch {};

// Splits a text at the characters that JSON has for structure, whatever is between them.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  JsonValue value(char closing) {
    if (next() == '{' || next() == '[') return container();
    JsonValue value;
    value.scalar = next() == '"' ? string() : other(closing);
    return value;
  }

  std::size_t at() const { return at_; }

 private:
  bool is_at_end() const { return at_ == text_.size(); }
  char next() const { return is_at_end() ? '\0' : text_[at_]; }
  bool is_one_of(std::string_view characters) const { return characters.find(text_[at_]) != characters.npos; }

  std::string space() {
    const std::size_t begin = at_;
    while (!is_at_end() && is_one_of(" \t\n\r")) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string string() {
    const std::size_t begin = at_++;
    while (!is_at_end() && text_[at_] != '"') at_ += text_[at_] == '\\' && at_ + 1 < text_.size() ? 2 : 1;
    if (!is_at_end()) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  // A number, a word, or what has no meaning here. It may be empty only before a comma and the closing bracket.
  std::string other(char closing) {
    const std::size_t begin = at_;
    while (!is_at_end() && !is_one_of(" \t\n\r{}[],:\"")) ++at_;
    if (at_ == begin && !is_at_end() && next() != ',' && next() != closing) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  JsonValue container() {
    if (++depth_ > kDepthMax) throw TooMuch{};
    JsonValue value;
    value.kind = next() == '{' ? Kind::kObject : Kind::kArray;
    const char closing = next() == '{' ? '}' : ']';
    ++at_;
    value.before_end = space();
    while (!is_at_end() && (next() != closing || (!value.items.empty() && value.items.back().has_comma))) {
      value.items.push_back(
          item(value.kind, closing, value.items.empty() ? std::exchange(value.before_end, "") : space()));
    }
    value.is_closed = next() == closing && !is_at_end();
    if (value.is_closed) ++at_;
    --depth_;
    return value;
  }

  JsonItem item(Kind kind, char closing, std::string before) {
    if (++items_ > kItemsMax) throw TooMuch{};
    JsonItem item;
    item.before = std::move(before);
    item.value = value(closing);
    item.after = space();
    if (kind == Kind::kObject && next() == ':' && !is_at_end()) {
      item.before_key = std::exchange(item.before, "");
      item.key = write(item.value);
      item.before_colon = std::exchange(item.after, "");
      item.has_colon = true;
      ++at_;
      item.before = space();
      item.value = value(closing);
      item.after = space();
    }
    item.has_comma = next() == ',' && !is_at_end();
    if (item.has_comma) ++at_;
    return item;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  unsigned depth_ = 0;
  std::size_t items_ = 0;
};

void write_to(const JsonValue& value, std::string& text) {
  if (value.kind == Kind::kScalar) {
    text += value.scalar;
    return;
  }
  text += value.kind == Kind::kObject ? '{' : '[';
  text += value.before_end;
  for (const JsonItem& item : value.items) {
    if (item.has_colon) text += item.before_key + item.key + item.before_colon + ':';
    text += item.before;
    write_to(item.value, text);
    text += item.after;
    if (item.has_comma) text += ',';
  }
  if (value.is_closed) text += value.kind == Kind::kObject ? '}' : ']';
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return number;
}

void set_range(JsonItem& tensor, DataRange range) {
  *find(tensor.value, "data_offsets") = array_of({range.begin, range.end});
}

// Where a tensor's data is, if it is inside the data and no other tensor has a part of it.
std::map<std::size_t, DataRange> ranges_alone(const SafetensorsDraft& draft) {
  struct Found {
    DataRange range;
    std::size_t place;
    bool is_alone;
  };
  std::vector<Found> all;
  for (const std::size_t place : tensor_places(draft)) {
    const auto range = data_range(draft.root.items[place]);
    if (!range || range->end < range->begin) continue;
    all.push_back({*range, place, range->end <= draft.data.bytes.size()});
  }
  std::ranges::sort(all, {}, [](const Found& f) { return std::tuple(f.range.begin, f.range.end, f.place); });
  std::uint64_t end = 0;
  Found* last = nullptr;  // the one that ends there
  for (Found& found : all) {
    if (found.range.begin < end) found.is_alone = last->is_alone = false;
    if (found.range.end >= end) end = found.range.end, last = &found;
  }
  std::map<std::size_t, DataRange> alone;
  for (const Found& found : all) {
    if (found.is_alone) alone.emplace(found.place, found.range);
  }
  return alone;
}

// New sizes of the data of tensors that have it alone. Others keep their bytes, and all offsets follow.
void resize_data(SafetensorsDraft& draft, const std::map<std::size_t, std::uint64_t>& sizes) {
  const std::map<std::size_t, DataRange> alone = ranges_alone(draft);
  std::vector<std::pair<DataRange, std::size_t>> order;
  for (const auto& [place, range] : alone) order.emplace_back(range, place);
  std::ranges::sort(order, {},
                    [](const auto& each) { return std::tuple(each.first.begin, each.first.end, each.second); });
  const model::Bytes old = draft.data.bytes;
  std::vector<std::byte> data;
  const auto copy = [&](std::uint64_t begin, std::uint64_t end) {
    const model::Bytes part = old.subspan(begin, end - begin);
    data.insert(data.end(), part.begin(), part.end());
  };
  // Old positions in ascending order, and where they are now.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> moved = {{0, 0}};
  std::uint64_t at = 0;
  for (const auto& [range, place] : order) {
    copy(at, range.begin);
    const std::uint64_t begin = data.size();
    const auto size = sizes.find(place);
    const std::uint64_t had = range.end - range.begin;
    const std::uint64_t bytes = size == sizes.end() ? had : size->second;
    copy(range.begin, range.begin + std::min(had, bytes));
    data.resize(begin + bytes);
    set_range(draft.root.items[place], {begin, begin + bytes});
    at = range.end;
    moved.emplace_back(at, data.size());
  }
  copy(at, old.size());
  draft.data = slice_of(std::move(data));
  const auto now = [&](std::uint64_t offset) {
    const auto above = std::ranges::upper_bound(moved, offset, {}, [](const auto& each) { return each.first; });
    return std::prev(above)->second + (offset - std::prev(above)->first);
  };
  for (const std::size_t place : tensor_places(draft)) {
    const auto range = alone.contains(place) ? std::nullopt : data_range(draft.root.items[place]);
    if (range) set_range(draft.root.items[place], {now(range->begin), now(range->end)});
  }
}

}  // namespace

std::string write(const JsonValue& value) {
  std::string text;
  write_to(value, text);
  return text;
}

JsonValue scalar(std::string text) {
  JsonValue value;
  value.scalar = std::move(text);
  return value;
}

JsonValue split_json(std::string_view text) { return Splitter(text).value('\0'); }

std::string in_json(std::string_view text) {
  std::string written = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') written += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      written += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      written += c;
    }
  }
  return written + '"';
}

JsonItem member(std::string_view key, std::string_view value) {
  JsonItem item = element(value);
  item.key = in_json(key);
  item.has_colon = true;
  return item;
}

JsonItem element(std::string_view value) {
  JsonItem item;
  item.value = split_json(value);
  return item;
}

void separate(std::vector<JsonItem>& items) {
  for (JsonItem& item : items) item.has_comma = &item != &items.back();
}

std::optional<SafetensorsDraft> take_apart_safetensors(model::Bytes file) {
  if (file.size() < kSafetensorsLengthBytes) return std::nullopt;
  const std::uint64_t length = model::little_endian(file.first(kSafetensorsLengthBytes));
  const std::uint64_t header_bytes = std::min<std::uint64_t>(length, file.size() - kSafetensorsLengthBytes);
  const std::string_view header = model::text_of(file.subspan(kSafetensorsLengthBytes, header_bytes));
  SafetensorsDraft draft;
  draft.length_difference = length - header_bytes;
  draft.data = {nullptr, file.subspan(kSafetensorsLengthBytes + header_bytes)};
  const std::size_t begin = std::min(header.find('{'), header.size());
  draft.lead = header.substr(0, begin);
  try {
    Splitter splitter(header.substr(begin));
    draft.root = splitter.value('\0');
    draft.tail = header.substr(begin + splitter.at());
  } catch (const TooMuch&) {
    return std::nullopt;
  }
  return draft;
}

std::vector<std::byte> write(const SafetensorsDraft& draft) {
  const std::string header = draft.lead + write(draft.root) + draft.tail;
  const std::string text = number_bytes(header.size() + draft.length_difference, kSafetensorsLengthBytes) + header;
  const auto bytes = std::as_bytes(std::span(text));
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  file.insert(file.end(), draft.data.bytes.begin(), draft.data.bytes.end());
  return file;
}

std::vector<std::size_t> tensor_places(const SafetensorsDraft& draft) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < draft.root.items.size(); ++i) {
    const JsonItem& item = draft.root.items[i];
    if (item.value.kind == Kind::kObject && item.key != "\"__metadata__\"") places.push_back(i);
  }
  return places;
}

const JsonValue* find(const JsonValue& object, std::string_view key) {
  const auto found = std::ranges::find(object.items, in_json(key), &JsonItem::key);
  return found == object.items.end() ? nullptr : &found->value;
}

JsonValue* find(JsonValue& object, std::string_view key) {
  return const_cast<JsonValue*>(find(std::as_const(object), key));
}

std::optional<std::vector<std::uint64_t>> numbers_in(const JsonValue* value) {
  if (value == nullptr || value->kind != Kind::kArray) return std::nullopt;
  std::vector<std::uint64_t> numbers;
  for (const JsonItem& item : value->items) {
    const auto number = item.value.kind == Kind::kScalar ? number_in(item.value.scalar) : std::nullopt;
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

JsonValue array_of(const std::vector<std::uint64_t>& numbers) {
  JsonValue value;
  value.kind = Kind::kArray;
  for (const std::uint64_t number : numbers) value.items.push_back(element(std::to_string(number)));
  separate(value.items);
  return value;
}

std::optional<DataRange> data_range(const JsonItem& tensor) {
  const auto numbers = numbers_in(find(tensor.value, "data_offsets"));
  if (!numbers || numbers->size() != 2) return std::nullopt;
  return DataRange{numbers->front(), numbers->back()};
}

std::string dtype_name(const JsonItem& tensor) {
  const JsonValue* const value = find(tensor.value, "dtype");
  if (value == nullptr || value->scalar.size() < 2 || value->scalar.front() != '"') return "";
  return value->scalar.substr(1, value->scalar.size() - 2);
}

std::optional<std::uint64_t> size_bytes_of(const std::string& dtype, const std::vector<std::uint64_t>& shape) {
  constexpr std::uint64_t kBitsMax = 8 * kDataBytesMax;
  const safetensors::Dtype* const found = safetensors::dtype_of(dtype);
  if (found == nullptr) return std::nullopt;
  std::uint64_t bits = found->bits;
  for (const std::uint64_t dim : shape) {
    if (dim != 0 && bits > kBitsMax / dim) return std::nullopt;
    bits *= dim;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

void replace_data(SafetensorsDraft& draft, DataRange range, std::vector<std::byte> bytes) {
  const std::uint64_t change = bytes.size() - (range.end - range.begin);
  const model::Bytes before = draft.data.bytes.first(range.begin), after = draft.data.bytes.subspan(range.end);
  bytes.insert(bytes.begin(), before.begin(), before.end());
  bytes.insert(bytes.end(), after.begin(), after.end());
  draft.data = slice_of(std::move(bytes));
  for (const std::size_t place : tensor_places(draft)) {
    JsonItem& tensor = draft.root.items[place];
    const auto its = data_range(tensor);
    const bool is_behind = its && its->begin >= range.end;
    // What only ends behind the range keeps its beginning.
    if (!is_behind && (!its || its->end <= range.end)) continue;
    set_range(tensor, {is_behind ? its->begin + change : its->begin, its->end + change});
  }
}

void reshape(SafetensorsDraft& draft, const std::vector<NewShape>& shapes) {
  const std::map<std::size_t, DataRange> alone = ranges_alone(draft);
  std::map<std::size_t, std::uint64_t> sizes;
  for (const NewShape& wanted : shapes) {
    JsonItem& tensor = draft.root.items[wanted.place];
    JsonValue* const shape = find(tensor.value, "shape");
    JsonValue* const dtype = find(tensor.value, "dtype");
    const auto old_shape = numbers_in(shape);
    const auto range = alone.find(wanted.place);
    if (!old_shape || dtype == nullptr || range == alone.end()) continue;
    const auto old_bytes = size_bytes_of(dtype_name(tensor), *old_shape);
    const auto new_bytes = size_bytes_of(wanted.dtype, wanted.shape);
    if (!old_bytes || !new_bytes) continue;
    // A difference larger than what is left wraps, so that it goes.
    const std::uint64_t bytes = *new_bytes + (range->second.end - range->second.begin) - *old_bytes;
    sizes[wanted.place] = bytes > kDataBytesMax ? *new_bytes : bytes;
    *shape = array_of(wanted.shape);
    *dtype = split_json(in_json(wanted.dtype));
  }
  if (!sizes.empty()) resize_data(draft, sizes);
}

void erase_tensors(SafetensorsDraft& draft, const std::vector<std::size_t>& places) {
  const std::map<std::size_t, DataRange> alone = ranges_alone(draft);
  std::map<std::size_t, std::uint64_t> sizes;
  for (const std::size_t place : places) {
    if (alone.contains(place)) sizes[place] = 0;
  }
  if (!sizes.empty()) resize_data(draft, sizes);
  auto& items = draft.root.items;
  const bool had_comma = !items.empty() && items.back().has_comma;
  std::vector<JsonItem> kept;
  auto next = places.begin();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (next != places.end() && *next == i) {
      ++next;
    } else {
      kept.push_back(std::move(items[i]));
    }
  }
  items = std::move(kept);
  if (!items.empty()) items.back().has_comma = had_comma;
}

}  // namespace tzmark::conformance::mutation
