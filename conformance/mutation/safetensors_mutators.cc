// Changes of safetensors files; see safetensors_mutators.h.
#include "mutation/safetensors_mutators.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "model/text.h"
#include "mutation/blob.h"
#include "mutation/odd_values.h"
#include "safetensors_model/dtypes.h"

namespace tzmark::conformance::mutation {
namespace {

using Kind = JsonValue::Kind;

constexpr std::string_view kMetadata = "__metadata__";

std::ptrdiff_t nth(std::size_t place) { return static_cast<std::ptrdiff_t>(place); }

// Values in JSON that are of no use at most places.
std::string odd_value(Random& random) {
  static const std::vector<std::string> values = {
      "null",        "true",    "false",    "0",        "-1",    "1.5",       "\"\"",  "\"a\"",
      "[]",          "{}",      "[0]",      "[[]]",     "[1,2]", "{\"a\":1}", "NaN",   "1e999",
      "\"\\ud800\"", "",        "01",       "Infinity", "-",     "'a'",       "1e308", "18446744073709551616",
      "[1,]",        "{\"a\"}", "{\"a\":}", "undefined"};
  if (random.one_in(6)) {
    // The deepest nesting that a reader takes is 127, and some objects are around this.
    const auto depth = random.pick<std::size_t>({64, 123, 124, 125, 126, 127, 128, 129, 200});
    return std::string(depth, '[') + std::string(depth, ']');
  }
  return random.pick(values);
}

// Of a number, in a spelling that a reader may take for it.
std::string odd_spelling(const std::string& number, Random& random) {
  switch (random.below(14)) {
    case 0:
      return number + ".0";
    case 1:
      return number + "e0";
    case 2:
      return "-" + number;
    case 3:
      return "0" + number;
    case 4:
      return "+" + number;
    case 5:
      return in_json(number);
    case 6:
      return number + random.pick({'E', '.', 'x', 'L', '_'});
    case 7:
      return "0x" + number;
    case 8:
      return number + std::string(random.pick<std::size_t>({1, 18, 20, 40}), '0');
    case 9:
      // 2^64 and 2^64 + 1, which wrap to 0 and 1.
      return random.pick<std::string>({"18446744073709551616", "18446744073709551617", "36893488147419103232"});
    case 10:
      return number + ".5";
    case 11:
      return random.pick<std::string>({"true", "false", "null", "NaN", "-Infinity", "[" + number + "]", ""});
    case 12:
      return number + "e-0";
    default:
      return "1" + std::string(random.pick<std::size_t>({9, 10, 19, 20}), '0');
  }
}

// A string in JSON, with one character in another spelling, or something that no string has.
std::string other_string(const std::string& written, Random& random, bool valid) {
  if (written.size() < 2 || written.front() != '"') return written;
  const std::size_t place = 1 + random.below(written.size() - 1);
  const char c = written[place];
  const bool is_plain = place + 1 < written.size() && c != '\\' && static_cast<unsigned char>(c) < 0x80 &&
                        written.find('\\') == written.npos;
  if (is_plain && (valid || random.one_in(3))) {
    const std::string escape =
        random.one_in(2) ? fmt::format("\\u{:04x}", unsigned(c)) : fmt::format("\\u{:04X}", unsigned(c));
    return written.substr(0, place) + escape + written.substr(place + 1);
  }
  static const std::vector<std::string> valid_parts = {
      "\\\"",           "\\\\", "\\/",    "\\b", "\\n", "\\u0000", "\x7f",   "é",
      "\\ud83d\\ude00", "😀",    "\u2028", " ",   ".",   "x",       "e\u0301"};
  static const std::vector<std::string> wrong_parts = {std::string(1, '\0'),
                                                       "\n",
                                                       "\t",
                                                       "\x1f",
                                                       "\\x41",
                                                       "\\u12",
                                                       "\\ud800",
                                                       "\\udc00",
                                                       "\\ud800\\ud800",
                                                       "\\a",
                                                       "\\u 123",
                                                       "\xff",
                                                       "\xc3",
                                                       "\xc0\x80",
                                                       "\xed\xa0\x80",
                                                       "\xf5\x80\x80\x80",
                                                       "\\",
                                                       "\"",
                                                       "\\u00g0",
                                                       "\xe2\x82",
                                                       "\xf4\x90\x80\x80"};
  const std::string part = random.pick(valid ? valid_parts : wrong_parts);
  if (written.find('\\') != written.npos) return written.substr(0, 1) + part + written.substr(1);
  return written.substr(0, place) + part + written.substr(place);
}

std::string odd_space(Random& random) {
  return random.pick<std::string>({" ", "\n", "\t", "\r", "\r\n", "   ", "\f", "\v", std::string(1, '\0'), "\xc2\xa0",
                                   "\xef\xbb\xbf", "/**/", "//\n", "#\n"});
}

std::string good_space(Random& random) { return random.pick<std::string>({" ", "\n", "\t", "\r", "\r\n", "  \n  "}); }

// A change of the JSON or of the data of one file.
class SafetensorsChange {
 public:
  SafetensorsChange(SafetensorsDraft draft, Random& random) : draft_(std::move(draft)), random_(&random) {}

  FileChange make() {
    switch (random_->below(8)) {
      case 0:
        change_length();
        break;
      case 1:
        change_metadata();
        break;
      case 2:
      case 3:
        change_text();
        break;
      case 4:
        change_data();
        break;
      default:
        change_tensor();
    }
    return {write(draft_), part_, std::move(text_)};
  }

  FilePart make_valid(std::string& text) {
    switch (random_->below(8)) {
      case 0:
        part_ = FilePart::kHeader;
        spaces(true);
        break;
      case 1:
        part_ = FilePart::kHeader;
        strings(true);
        break;
      case 2:
        reorder();
        break;
      case 3:
        add_tensors(random_->pick<std::size_t>({1, 2, 3, 8, 40, 130}));
        break;
      case 4:
        valid_metadata();
        break;
      case 5:
        unknown_member(true);
        break;
      case 6:
        other_shape();
        break;
      default:
        rename();
    }
    text += text_;
    return part_;
  }

  SafetensorsDraft take() { return std::move(draft_); }

 private:
  std::vector<JsonItem>& members() { return draft_.root.items; }

  // Of a tensor; nothing if there is none.
  std::optional<std::size_t> pick_tensor() {
    const std::vector<std::size_t> places = tensor_places(draft_);
    if (places.empty()) return std::nullopt;
    const std::size_t place = random_->pick(places);
    text_ += fmt::format("tensor {}: ", place);
    return place;
  }

  // Puts a member anywhere.
  void insert(std::vector<JsonItem>& items, JsonItem item) {
    items.insert(items.begin() + nth(random_->below(items.size() + 1)), std::move(item));
    separate(items);
  }

  std::vector<JsonValue*> values() {
    std::vector<JsonValue*> found;
    const std::function<void(JsonValue&)> add = [&](JsonValue& value) {
      found.push_back(&value);
      for (JsonItem& item : value.items) add(item.value);
    };
    add(draft_.root);
    return found;
  }

  JsonValue* pick_container() {
    std::vector<JsonValue*> found = values();
    std::erase_if(found, [](const JsonValue* value) { return value->kind == Kind::kScalar; });
    return found.empty() ? nullptr : random_->pick(found);
  }

  void change_length() {
    part_ = FilePart::kHeaderLength;
    const std::uint64_t right = draft_.lead.size() + write(draft_.root).size() + draft_.tail.size();
    const std::uint64_t file = kSafetensorsLengthBytes + right + draft_.data.bytes.size();
    const std::uint64_t length =
        odd_number(right, 8, {0, 1, 2, file, file - 8, file - 7, 100'000'000, 100'000'001}, *random_);
    draft_.length_difference = length - right;
    text_ = fmt::format("the length of the header is {} and becomes {}", right, length);
  }

  // White space, and what looks like it.
  void spaces(bool valid) {
    const std::string space = valid ? good_space(*random_) : odd_space(*random_);
    text_ += fmt::format("white space {}", model::in_quotes(space));
    JsonValue* const value = pick_container();
    if (value == nullptr || value->items.empty()) {
      if (value != nullptr) value->before_end = space;
      return;
    }
    JsonItem& item = value->items[random_->below(value->items.size())];
    const auto text =
        item.has_colon
            ? random_->pick({&JsonItem::before_key, &JsonItem::before_colon, &JsonItem::before, &JsonItem::after})
            : random_->pick({&JsonItem::before, &JsonItem::after});
    item.*text = space;
  }

  void strings(bool valid) {
    std::vector<std::string*> texts;
    for (JsonValue* value : values()) {
      if (value->scalar.starts_with('"')) texts.push_back(&value->scalar);
      for (JsonItem& item : value->items) {
        if (item.has_colon) texts.push_back(&item.key);
      }
    }
    if (texts.empty()) return spaces(valid);
    std::string& chosen = *random_->pick(texts);
    const std::string old = chosen;
    chosen = other_string(old, *random_, valid);
    // Anything but another spelling could be one more key, or none that a reader knows.
    if (valid && chosen.find("\\u") == chosen.npos) chosen = old;
    text_ += fmt::format("the string {} becomes {}", model::in_quotes(old), model::in_quotes(chosen));
  }

  void change_text() {
    part_ = FilePart::kHeader;
    switch (random_->below(8)) {
      case 0:
        return spaces(false);
      case 1:
      case 2:
        return strings(false);
      case 3:
        draft_.lead = random_->one_in(3) ? "// a\n" : odd_space(*random_);
        text_ = fmt::format("{} stands before the object", model::in_quotes(draft_.lead));
        return;
      case 4: {
        static const std::vector<std::string> tails = {"\n", "\t",   "\r", "  \n", "}",   "{}",      ",",
                                                       "x",  "\x1a", "\f", "null", "  {", "\xc2\xa0"};
        if (random_->one_in(3)) {
          draft_.tail += std::string(random_->pick<std::size_t>({1, 7, 8, 63, 4096}), ' ');
        } else {
          draft_.tail += random_->one_in(4) ? std::string(1 + random_->below(3), '\0') : random_->pick(tails);
        }
        text_ = fmt::format("{} stands behind the object", model::in_quotes(draft_.tail));
        return;
      }
      case 5:
        return commas();
      case 6:
        return duplicate();
      default:
        return replace_value();
    }
  }

  void commas() {
    JsonValue* const value = pick_container();
    if (value == nullptr) return;
    switch (random_->below(value->items.empty() ? 1 : 5)) {
      case 0:
        value->is_closed = false;
        text_ = "a bracket is not closed";
        return;
      case 1: {
        JsonItem& item = random_->one_in(2) ? value->items.back() : value->items[random_->below(value->items.size())];
        item.has_comma = !item.has_comma;
        text_ = "a comma more or less";
        return;
      }
      case 2: {
        const std::size_t place = random_->below(value->items.size() + 1);
        JsonItem empty;
        empty.has_comma = true;
        value->items.insert(value->items.begin() + nth(place), empty);
        text_ = "a comma without a value";
        return;
      }
      case 3: {
        JsonItem& item = value->items[random_->below(value->items.size())];
        item.has_colon = false;
        text_ = "a member without a key";
        return;
      }
      default: {
        JsonItem& item = value->items[random_->below(value->items.size())];
        if (item.key.size() > 1) item.key = item.key.substr(1, item.key.size() - 2);
        text_ = "a key without quotation marks";
      }
    }
  }

  // A key twice in some object, the second time maybe in another spelling or with another value.
  void duplicate() {
    std::vector<JsonValue*> objects = values();
    std::erase_if(objects, [](const JsonValue* v) { return v->kind != Kind::kObject || v->items.empty(); });
    if (objects.empty()) return;
    std::vector<JsonItem>& items = random_->pick(objects)->items;
    JsonItem copy = random_->pick(items);
    text_ = fmt::format("the key {} stands there twice", model::in_quotes(copy.key));
    if (random_->one_in(3)) copy.key = other_string(copy.key, *random_, true);
    if (random_->one_in(3)) copy.value = split_json(odd_value(*random_));
    insert(items, std::move(copy));
  }

  void replace_value() {
    const std::vector<JsonValue*> all = values();
    JsonValue* const value = all[random_->below(all.size())];
    const std::string text = random_->one_in(3) && value->kind != Kind::kScalar ? "[" + write(*value) + "]"
                             : random_->one_in(4)                               ? write(*random_->pick(all))
                                                                                : odd_value(*random_);
    text_ = fmt::format("{} becomes {}", model::in_quotes(write(*value)), model::in_quotes(text));
    *value = scalar(text);
  }

  JsonItem* metadata() {
    const auto found = std::ranges::find(members(), in_json(kMetadata), &JsonItem::key);
    return found == members().end() ? nullptr : &*found;
  }

  void change_metadata() {
    part_ = FilePart::kMetadata;
    JsonItem* item = metadata();
    if (item == nullptr || random_->one_in(6)) {
      JsonItem added = member(kMetadata, random_->one_in(2) ? "{\"format\":\"pt\"}" : odd_value(*random_));
      text_ = fmt::format("metadata {}", model::in_quotes(write(added.value)));
      return insert(members(), std::move(added));
    }
    if (item->value.kind != Kind::kObject || random_->one_in(5)) {
      item->value = scalar(odd_value(*random_));
      text_ = fmt::format("the metadata becomes {}", model::in_quotes(item->value.scalar));
      return;
    }
    if (random_->one_in(4)) {
      item->key = random_->pick<std::string>({"\"__metadata\"", "\"__METADATA__\"", "\"__metadata__ \"",
                                              "\"\\u005f_metadata__\"", "\"metadata\"", "\"__metadata__\\u0000\""});
      text_ = fmt::format("the key of the metadata is {}", model::in_quotes(item->key));
      return;
    }
    JsonItem added = member(random_->one_in(2) ? "format" : unusual_text(*random_), odd_value(*random_));
    text_ = fmt::format("the metadata has {}: {}", model::in_quotes(added.key), model::in_quotes(write(added.value)));
    insert(item->value.items, std::move(added));
  }

  void valid_metadata() {
    part_ = FilePart::kMetadata;
    JsonItem* item = metadata();
    if (item == nullptr) {
      insert(members(), member(kMetadata, "{}"));
      item = metadata();
    }
    const auto count = random_->pick<std::size_t>({1, 1, 2, 17, 300});
    for (std::size_t i = 0; i < count; ++i) {
      std::string value = unusual_text(*random_);
      if (random_->one_in(4)) value.resize(random_->pick<std::size_t>({255, 256, 65535, 65536}), 'v');
      item->value.items.push_back(member(fmt::format("key {} {}", item->value.items.size(), i), in_json(value)));
    }
    separate(item->value.items);
    text_ += fmt::format("{} more entries in the metadata", count);
  }

  void change_data() {
    part_ = FilePart::kData;
    std::vector<std::byte> data(draft_.data.bytes.begin(), draft_.data.bytes.end());
    switch (random_->below(4)) {
      case 0:
        data.resize(data.size() - std::min<std::size_t>(data.size(), 1 + random_->below(8)));
        break;
      case 1:
        data.resize(data.size() + random_->pick<std::size_t>({1, 7, 8, 4096}));
        break;
      case 2:
        if (!data.empty()) data.erase(data.begin());
        break;
      default:
        if (!data.empty()) data[random_->below(data.size())] ^= static_cast<std::byte>(1 + random_->below(255));
    }
    text_ = fmt::format("the data has {} bytes and had {}", data.size(), draft_.data.bytes.size());
    draft_.data = slice_of(std::move(data));
  }

  void change_tensor() {
    part_ = FilePart::kTensorEntry;
    const std::optional<std::size_t> place = pick_tensor();
    if (!place) return change_text();
    JsonItem& tensor = members()[*place];
    switch (random_->below(9)) {
      case 0:
      case 1:
        return change_offsets(*place);
      case 2:
        return change_shape(tensor);
      case 3:
        return change_dtype(tensor);
      case 4:
        return change_number(tensor);
      case 5:
        return change_members(tensor);
      case 6:
        text_ += "it is taken out";
        if (random_->one_in(2)) return erase_tensors(draft_, {*place});
        text_ += ", and its data stays";
        members().erase(members().begin() + nth(*place));
        return separate(members());
      case 7:
        return open_hole(*place);
      default:
        return unknown_member(false);
    }
  }

  std::vector<std::uint64_t> all_offsets() const {
    std::vector<std::uint64_t> offsets = {draft_.data.bytes.size()};
    for (const std::size_t place : tensor_places(draft_)) {
      if (const auto range = data_range(draft_.root.items[place])) {
        offsets.insert(offsets.end(), {range->begin, range->end});
      }
    }
    return offsets;
  }

  void change_offsets(std::size_t place) {
    JsonValue* const value = find(members()[place].value, "data_offsets");
    const auto range = data_range(members()[place]);
    if (value == nullptr || !range) return change_text();
    auto [begin, end] = *range;
    const std::uint64_t by = random_->pick<std::uint64_t>({1, 1, 8, UINT64_MAX, std::uint64_t{1} << 32, k63});
    switch (random_->below(7)) {
      case 0:
        std::swap(begin, end);
        break;
      case 1:
        begin += by;
        end += by;
        break;
      case 2:
        begin = odd_number(begin, 8, all_offsets(), *random_);
        break;
      case 3:
        end = odd_number(end, 8, all_offsets(), *random_);
        break;
      case 4: {
        const std::uint64_t size = end - begin;
        begin = random_->pick(all_offsets());
        end = begin + size;
        break;
      }
      case 5:
        begin = end = random_->pick(all_offsets());
        break;
      default: {
        *value = array_of({begin, end});
        if (random_->one_in(2)) {
          value->items.push_back(element(std::to_string(end)));
        } else {
          value->items.pop_back();
        }
        separate(value->items);
        text_ += fmt::format("its data_offsets are {}", write(*value));
        return;
      }
    }
    *value = array_of({begin, end});
    text_ += fmt::format("its data_offsets are {}", write(*value));
  }

  void change_shape(JsonItem& tensor) {
    JsonValue* const value = find(tensor.value, "shape");
    const auto old = numbers_in(value);
    if (!old) return change_text();
    std::vector<std::uint64_t> shape = *old;
    std::uint64_t count = 1;
    for (const std::uint64_t dim : shape) count *= dim;
    switch (random_->below(8)) {
      case 0:
        shape = odd_shape(shape, *random_);
        break;
      case 1:
        shape.insert(shape.begin() + nth(random_->below(shape.size() + 1)),
                     random_->pick<std::size_t>({1, 33, 65, 255}), 1);
        break;
      case 2:
        shape.insert(shape.begin() + nth(random_->below(shape.size() + 1)), 0);
        break;
      case 3:
        // The product wraps to what it was.
        shape = {count, k32, k32};
        if (random_->one_in(2)) shape = {k32 + 1, k32 - 1, count};
        break;
      case 4:
        if (!shape.empty()) {
          std::uint64_t& dim = shape[random_->below(shape.size())];
          dim = odd_number(dim, 8, {k32, k63, k53}, *random_);
        }
        break;
      case 5:
        if (!shape.empty()) shape[random_->below(shape.size())] += random_->pick({k32, k63});
        break;
      case 6:
        shape = {count};
        break;
      default:
        shape = {0, k63, random_->pick<std::uint64_t>({1, 2, 4})};
        if (random_->one_in(2)) std::swap(shape.front(), shape.back());
    }
    *value = array_of(shape);
    text_ += fmt::format("its shape is {}", write(*value));
  }

  void change_dtype(JsonItem& tensor) {
    JsonValue* const value = find(tensor.value, "dtype");
    if (value == nullptr) return change_text();
    const std::string old = dtype_name(tensor);
    static const std::vector<std::string> wrong = {
        "f32",  "float32", "F32 ", "torch.float32", "F8",   "F128", "C128", "BF8",       "I4",  "U4",
        "I128", "",        "<f4",  "F16\\u0000",    "bool", "INT8", "FP32", "F8_E4M3FN", "F4_", "F6"};
    std::string name = random_->pick(wrong);
    if (random_->one_in(2)) name = safetensors::dtypes()[random_->below(safetensors::dtypes().size())].name;
    value->scalar = '"' + name + '"';
    value->kind = Kind::kScalar;
    value->items.clear();
    if (random_->one_in(8)) *value = split_json("{" + value->scalar + ":null}");
    text_ += fmt::format("its dtype is {} and was {}", write(*value), old);
  }

  void change_number(JsonItem& tensor) {
    std::vector<JsonValue*> numbers;
    for (const char* const name : {"shape", "data_offsets"}) {
      JsonValue* const value = find(tensor.value, name);
      if (value == nullptr) continue;
      for (JsonItem& item : value->items) numbers.push_back(&item.value);
    }
    if (numbers.empty()) return change_text();
    JsonValue& number = *random_->pick(numbers);
    const std::string old = write(number);
    number = scalar(odd_spelling(old, *random_));
    text_ += fmt::format("the number {} becomes {}", old, model::in_quotes(number.scalar));
  }

  void change_members(JsonItem& tensor) {
    auto& items = tensor.value.items;
    if (items.empty()) return change_text();
    const std::size_t place = random_->below(items.size());
    switch (random_->below(5)) {
      case 0:
        text_ += fmt::format("{} is taken out", items[place].key);
        items.erase(items.begin() + nth(place));
        return separate(items);
      case 1:
        items[place].key = random_->pick<std::string>(
            {"\"Dtype\"", "\"SHAPE\"", "\"dtype \"", "\"data_offset\"", "\"offsets\"", "\"\"", "\"shape\\u0000\""});
        text_ += fmt::format("a key of it is {}", items[place].key);
        return;
      case 2: {
        const std::string list = fmt::format("[{},{},{}]", write(items.front().value),
                                             write(items[items.size() / 2].value), write(items.back().value));
        tensor.value = split_json(list);
        text_ += "it is a list";
        return;
      }
      case 3:
        std::swap(items[place].value, items[random_->below(items.size())].value);
        text_ += "two of its values changed places";
        return;
      default:
        items[place].value = scalar(odd_value(*random_));
        text_ += fmt::format("{} is {}", items[place].key, model::in_quotes(items[place].value.scalar));
    }
  }

  // Bytes of no tensor before it, or, where bytes are missing, two tensors with a part of the data in common.
  void open_hole(std::size_t place) {
    const auto range = data_range(members()[place]);
    if (!range || range->begin > draft_.data.bytes.size()) return change_text();
    const auto bytes = random_->pick<std::size_t>({1, 8, 64});
    replace_data(draft_, {range->begin, range->begin}, std::vector<std::byte>(bytes, std::byte{0xee}));
    text_ += fmt::format("{} bytes before its data", bytes);
  }

  void unknown_member(bool valid) {
    part_ = FilePart::kTensorEntry;
    const std::optional<std::size_t> place = pick_tensor();
    if (!place) return spaces(valid);
    static const std::vector<std::string> valid_values = {
        "null", "0", "-1.5e3", "\"text\"", "[]", "{}", "[1,{\"a\":[null]}]", "{\"dtype\":\"F32\"}", "1e-400", "true"};
    const std::string value = valid ? random_->pick(valid_values) : odd_value(*random_);
    const std::string key = random_->one_in(3) ? "dtypes" : unusual_text(*random_);
    text_ += fmt::format("it has an unknown key {} with {}", model::in_quotes(key), model::in_quotes(value));
    insert(members()[*place].value.items, member(key, value));
  }

  void reorder() {
    part_ = FilePart::kTensorEntry;
    const std::optional<std::size_t> place = random_->one_in(2) ? pick_tensor() : std::nullopt;
    auto& items = place ? members()[*place].value.items : members();
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random_->below(i)]);
    separate(items);
    text_ += "in another order";
  }

  std::string entry(const std::string& dtype, const std::vector<std::uint64_t>& shape, DataRange range) const {
    return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", dtype, write(array_of(shape)),
                       range.begin, range.end);
  }

  std::string free_name(const std::string& wanted) {
    std::string name = wanted;
    const auto is_taken = [&] {
      return std::ranges::any_of(members(), [&](const JsonItem& item) { return item.key == in_json(name); });
    };
    for (unsigned i = 0; name == kMetadata || is_taken(); ++i) name = fmt::format("{}.{}", wanted, i);
    return name;
  }

  // Between those that there are, with data of their own.
  void add_tensors(std::size_t count) {
    part_ = FilePart::kTensorEntry;
    for (std::size_t i = 0; i < count; ++i) {
      const std::vector<std::uint64_t> offsets = all_offsets();
      const std::uint64_t begin = random_->pick(offsets);
      if (begin > draft_.data.bytes.size()) return;
      const safetensors::Dtype& dtype = safetensors::dtypes()[random_->below(safetensors::dtypes().size())];
      const std::vector<std::vector<std::uint64_t>> shapes = {{8}, {2, 4}, {0}, {0, 5}, {4, 0, k32}, {1, 1, 8}, {16}};
      const std::vector<std::uint64_t>& shape = random_->pick(shapes);
      const std::uint64_t bytes = size_bytes_of(std::string(dtype.name), shape).value_or(0);
      std::vector<std::byte> data(bytes);
      for (std::byte& each : data) each = static_cast<std::byte>(random_->next());
      replace_data(draft_, {begin, begin}, std::move(data));
      const std::string name = free_name(random_->one_in(8) ? unusual_text(*random_) : fmt::format("added.{}", i));
      insert(members(), member(name, entry(std::string(dtype.name), shape, {begin, begin + bytes})));
    }
    text_ += fmt::format("{} more tensors", count);
  }

  void other_shape() {
    part_ = FilePart::kTensorEntry;
    const std::optional<std::size_t> place = pick_tensor();
    if (!place) return add_tensors(1);
    const safetensors::Dtype& dtype = safetensors::dtypes()[random_->below(safetensors::dtypes().size())];
    const std::uint64_t dim = unusual_dim(4097, *random_);
    const std::vector<std::vector<std::uint64_t>> shapes = {
        {dim * 8}, {8, dim}, {0}, {k32, 0}, {0, dim}, {2, 2, 2, 1}, std::vector<std::uint64_t>(70, 1), {}};
    const std::vector<std::uint64_t>& shape = random_->pick(shapes);
    reshape(draft_, {{*place, shape, std::string(dtype.name)}});
    text_ += fmt::format("it is {} of {}", dtype.name, write(array_of(shape)));
  }

  void rename() {
    part_ = FilePart::kTensorEntry;
    const std::optional<std::size_t> place = pick_tensor();
    if (!place) return add_tensors(1);
    std::string name = random_->one_in(2) ? unusual_text(*random_) : "";
    if (random_->one_in(2)) name.resize(std::max(unusual_name_bytes(*random_), name.size()), 'n');
    members()[*place].key = in_json(free_name(name));
    text_ += fmt::format("its name becomes {}", model::in_quotes(members()[*place].key));
  }

  SafetensorsDraft draft_;
  Random* random_;
  FilePart part_ = FilePart::kFile;
  std::string text_;
};

}  // namespace

FileChange change_safetensors_raw(const Seed& seed, Random& random) {
  std::vector<std::byte> bytes = seed.bytes;
  const std::size_t place = random.below(bytes.size() + 1);
  FileChange change;
  switch (random.below(7)) {
    case 0:
      bytes.resize(place);
      change.text = fmt::format("the file ends at byte {}", place);
      break;
    case 1: {
      const auto count = random.pick<std::size_t>({1, 7, 8, 4096});
      bytes.resize(bytes.size() + count);
      change.text = fmt::format("{} zeros follow the end of the file", count);
      break;
    }
    case 2:
      bytes.insert(bytes.begin() + nth(place), static_cast<std::byte>(random.next()));
      change.text = fmt::format("a byte more at {}", place);
      break;
    case 3:
      if (place < bytes.size()) bytes.erase(bytes.begin() + nth(place));
      change.text = fmt::format("byte {} is taken out", place);
      break;
    case 4: {
      const std::string length =
          odd_bytes(std::string(model::text_of(model::Bytes(bytes).first(kSafetensorsLengthBytes))), random);
      std::ranges::copy(std::as_bytes(std::span(length)), bytes.begin());
      change.text = "the length of the header has other bytes";
      change.part = FilePart::kHeaderLength;
      break;
    }
    default:
      if (place < bytes.size()) bytes[place] ^= static_cast<std::byte>(1 << random.below(8));
      change.text = fmt::format("one bit of byte {}", place);
  }
  change.bytes = std::move(bytes);
  return change;
}

FileChange change_safetensors(SafetensorsDraft draft, Random& random) {
  return SafetensorsChange(std::move(draft), random).make();
}

FilePart make_safetensors_neighbour(SafetensorsDraft& draft, Random& random, std::string& text) {
  SafetensorsChange change(std::move(draft), random);
  const FilePart part = change.make_valid(text);
  draft = change.take();
  return part;
}

}  // namespace tzmark::conformance::mutation
