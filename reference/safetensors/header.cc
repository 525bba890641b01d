// Parsing, checking and serializing headers.
#include "safetensors/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <tuple>

#include "bytes/cursor.h"
#include "bytes/utf8.h"
#include "safetensors/dtypes.h"
#include "safetensors/json_events.h"

namespace tzmark::safetensors {

// Receives the tokens of a header, then checks the result.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, SafetensorsProfile profile) : text_(text), profile_(profile) {}

  Header parse(std::uint64_t file_bytes) {
    if (const auto at = find_invalid_utf8(text_)) fail(ErrorCode::kStHeaderUtf8, *at, "this is not UTF-8");
    const std::size_t begin = find_begin();
    JsonEvents events(text_, kLengthBytes, ErrorCode::kStHeaderJson, *this);
    check_padding(events.walk(begin));
    sort_by_name();
    drop_duplicates();
    sort_by_data();
    check_data(file_bytes);
    return std::move(header_);
  }

  void operator()(const JsonToken& token) {
    switch (state_) {
      case State::kRoot:
        return on_root(token);
      case State::kTensors:
        return on_tensors(token);
      case State::kMetadata:
        return on_metadata(token);
      case State::kEntry:
        return on_entry(token);
      case State::kEntryList:
        return on_entry_list(token);
      case State::kDtypeObject:
        return on_dtype_object(token);
      case State::kShape:
        return on_shape(token);
      case State::kOffsets:
        return on_offsets(token);
      case State::kIgnored:
        return on_ignored(token);
    }
  }

 private:
  // What the next token belongs to.
  enum class State : std::uint8_t {
    kRoot,
    kTensors,      // the object of the header
    kMetadata,     // the object of __metadata__
    kEntry,        // the object of a tensor
    kEntryList,    // the same as a list, which the library also accepts
    kDtypeObject,  // {"F32": null}, which the library accepts as "F32"
    kShape,
    kOffsets,
    kIgnored,  // the value of an unknown key
  };
  enum Field : std::uint8_t { kDtype, kShape, kDataOffsets, kFieldCount, kUnknown = kFieldCount };
  static constexpr std::array<std::string_view, kFieldCount> kFields = {"dtype", "shape", "data_offsets"};

  bool strict() const { return profile_ == SafetensorsProfile::kSpec; }

  [[noreturn]] void fail(ErrorCode code, std::size_t at, const std::string& detail) const {
    throw Error(code, detail, kLengthBytes + at);
  }

  [[noreturn]] void fail_in_tensor(ErrorCode code, std::size_t at, const std::string& detail) const {
    fail(code, at, fmt::format("tensor '{}': {}", name(), detail));
  }

  // For what the library accepts: the first error of this kind is thrown when the header has no other.
  void fail_later(ErrorCode code, std::size_t at, const std::string& detail) {
    if (strict() && !of_spec_) of_spec_.emplace(code, detail, kLengthBytes + at);
  }
  void fail_in_tensor_later(ErrorCode code, std::size_t at, const std::string& detail) {
    fail_later(code, at, fmt::format("tensor '{}': {}", name(), detail));
  }

  std::string_view name() const { return header_.listing.name(tensor_); }
  std::vector<Listing::Tensor>& tensors() { return header_.listing.tensors_; }

  std::size_t find_begin() const {
    std::size_t begin = 0;
    while (!strict() && begin < text_.size() && is_white_space(text_[begin])) ++begin;
    if (begin == text_.size() || text_[begin] != '{') {
      fail(ErrorCode::kStHeaderStart, begin, "the header does not begin with an opening brace");
    }
    return begin;
  }

  void check_padding(std::size_t end) const {
    for (std::size_t at = end; at < text_.size(); ++at) {
      if (strict() ? text_[at] == ' ' : is_white_space(text_[at])) continue;
      fail(ErrorCode::kStHeaderPadding, at,
           fmt::format("byte {:02x} after the object of the header", static_cast<unsigned char>(text_[at])));
    }
  }

  void on_root(const JsonToken&) { state_ = State::kTensors; }  // find_begin has seen the brace

  void on_tensors(const JsonToken& token) {
    switch (token.type) {
      case JsonType::kEndObject:
        return;
      case JsonType::kKey:
        in_metadata_ = token.text == kMetadataKey;
        if (in_metadata_) {
          // drop_duplicates handles other duplicate keys when all are known.
          if (metadata_seen_) fail(ErrorCode::kStDuplicateKey, token.at, "duplicate key '__metadata__'");
          metadata_seen_ = true;
        } else {
          begin_entry(token);
        }
        return;
      case JsonType::kBeginObject:
        state_ = in_metadata_ ? State::kMetadata : State::kEntry;
        return;
      case JsonType::kBeginArray:
        if (!in_metadata_ && !strict()) {
          state_ = State::kEntryList;
          return;
        }
        break;
      case JsonType::kNull:
        if (!in_metadata_) break;
        return fail_later(ErrorCode::kStMetadata, token.at, "__metadata__ is not an object");
      default:
        break;
    }
    if (in_metadata_) fail(ErrorCode::kStMetadata, token.at, "__metadata__ is not an object");
    fail_in_tensor(ErrorCode::kStHeaderJson, token.at, "this is not an object");
  }

  void on_metadata(const JsonToken& token) {
    switch (token.type) {
      case JsonType::kEndObject:
        state_ = State::kTensors;
        return;
      case JsonType::kKey:
        metadata_key_ = token.text;
        if (header_.metadata.contains(metadata_key_)) {
          fail_later(ErrorCode::kStDuplicateKey, token.at, fmt::format("duplicate key '{}'", metadata_key_));
        }
        return;
      case JsonType::kString:
        header_.metadata.insert_or_assign(metadata_key_, std::string(token.text));
        return;
      default:
        fail(ErrorCode::kStMetadata, token.at, fmt::format("the value of '{}' is not a string", metadata_key_));
    }
  }

  void begin_entry(const JsonToken& token) {
    std::string& names = header_.listing.names_;
    tensor_ = {};
    tensor_.key_at = static_cast<std::uint32_t>(token.at);
    tensor_.name_begin = static_cast<std::uint32_t>(names.size());
    tensor_.name_length = static_cast<std::uint32_t>(token.text.size());
    names += token.text;
    fields_seen_ = {};
    other_keys_.clear();
  }

  void end_entry(std::size_t at) {
    for (std::size_t field = 0; field < kFieldCount; ++field) {
      if (!fields_seen_[field]) fail_in_tensor(ErrorCode::kStHeaderJson, at, fmt::format("no {}", kFields[field]));
    }
    tensors().push_back(tensor_);
    state_ = State::kTensors;
  }

  void on_entry(const JsonToken& token) {
    if (token.type == JsonType::kEndObject) return end_entry(token.at);
    if (token.type != JsonType::kKey) return on_field(token, State::kEntry);
    const auto known = std::ranges::find(kFields, token.text);
    field_ = static_cast<Field>(known - kFields.begin());
    const auto twice = [&] { return fmt::format("duplicate key '{}'", token.text); };
    if (field_ != kUnknown) {
      if (fields_seen_[field_]) fail_in_tensor(ErrorCode::kStDuplicateKey, token.at, twice());
    } else if (strict() && !other_keys_.emplace(token.text).second) {
      fail_in_tensor_later(ErrorCode::kStDuplicateKey, token.at, twice());
    }
  }

  void on_entry_list(const JsonToken& token) {
    field_ = static_cast<Field>(std::ranges::count(fields_seen_, true));
    if (token.type == JsonType::kEndArray) return end_entry(token.at);
    if (field_ == kUnknown) fail_in_tensor(ErrorCode::kStHeaderJson, token.at, "a list of more than three elements");
    on_field(token, State::kEntryList);
  }

  // Handles the first token of a field's value. back: the state after the value.
  void on_field(const JsonToken& token, State back) {
    back_ = back;
    if (field_ == kUnknown) return begin_ignored(token);
    fields_seen_[field_] = true;
    if (field_ == kDtype) {
      if (token.type == JsonType::kString) return set_dtype(token);
      if (token.type == JsonType::kBeginObject && !strict()) {
        dtype_keys_ = 0;
        state_ = State::kDtypeObject;
        return;
      }
      fail_in_tensor(ErrorCode::kStHeaderJson, token.at, "dtype is not a string");
    }
    if (token.type != JsonType::kBeginArray) {
      fail_in_tensor(ErrorCode::kStHeaderJson, token.at, fmt::format("{} is not a list", kFields[field_]));
    }
    if (field_ == kShape) {
      tensor_.shape_begin = static_cast<std::uint32_t>(header_.listing.dimensions_.size());
      state_ = State::kShape;
    } else {
      offset_count_ = 0;
      state_ = State::kOffsets;
    }
  }

  void set_dtype(const JsonToken& token) {
    const auto found = find_dtype(token.text);
    if (!found) {
      fail_in_tensor(ErrorCode::kStDtype, token.at, fmt::format("'{}' is not a dtype of the format", token.text));
    }
    tensor_.dtype = *found;
  }

  void on_dtype_object(const JsonToken& token) {
    const bool one_null = token.type == JsonType::kNull && dtype_keys_ == 1;
    if (token.type == JsonType::kKey && ++dtype_keys_ == 1) return set_dtype(token);
    if (token.type == JsonType::kEndObject && dtype_keys_ == 1) {
      state_ = back_;
    } else if (!one_null) {
      fail_in_tensor(ErrorCode::kStHeaderJson, token.at,
                     "a dtype that is an object must have one key, whose value is null");
    }
  }

  std::uint64_t number(const JsonToken& token) const {
    if (token.type != JsonType::kUnsigned) {
      fail_in_tensor(ErrorCode::kStHeaderJson, token.at,
                     fmt::format("{} contains something other than an integer from 0 to 2^64 - 1", kFields[field_]));
    }
    return token.number;
  }

  void on_shape(const JsonToken& token) {
    if (token.type == JsonType::kEndArray) {
      state_ = back_;
      return;
    }
    header_.listing.dimensions_.push_back(number(token));
    ++tensor_.dimension_count;
  }

  void on_offsets(const JsonToken& token) {
    if (token.type == JsonType::kEndArray && offset_count_ == 2) {
      state_ = back_;
      return;
    }
    if (token.type == JsonType::kEndArray || offset_count_ == 2) {
      fail_in_tensor(ErrorCode::kStHeaderJson, token.at, "data_offsets does not have two elements");
    }
    (offset_count_++ == 0 ? tensor_.begin : tensor_.end) = number(token);
  }

  void begin_ignored(const JsonToken& token) {
    ignored_keys_.clear();
    state_ = State::kIgnored;
    on_ignored(token);
  }

  // ignored_keys_ has one set per open array or object; that of an array stays empty.
  void on_ignored(const JsonToken& token) {
    switch (token.type) {
      case JsonType::kBeginObject:
      case JsonType::kBeginArray:
        ignored_keys_.emplace_back();
        break;
      case JsonType::kEndObject:
      case JsonType::kEndArray:
        ignored_keys_.pop_back();
        break;
      case JsonType::kKey:
        if (strict() && !ignored_keys_.back().emplace(token.text).second) {
          fail_in_tensor_later(ErrorCode::kStDuplicateKey, token.at, fmt::format("duplicate key '{}'", token.text));
        }
        break;
      default:
        break;
    }
    if (ignored_keys_.empty()) state_ = back_;
  }

  void sort_by_name() {
    std::vector<std::uint32_t>& order = header_.listing.by_name_;
    order.resize(tensors().size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, {}, [&](std::uint32_t i) {
      const Listing::Tensor& tensor = header_.listing[i];
      return std::pair(header_.listing.name(tensor), tensor.key_at);
    });
  }

  // Keeps the last of several tensors of one name, if the profile allows duplicates. Throws what waited for the end.
  void drop_duplicates() {
    const Listing& listing = header_.listing;
    std::vector<std::uint32_t>& order = header_.listing.by_name_;
    const auto name_of = [&](std::uint32_t i) { return listing.name(listing[i]); };
    const Listing::Tensor* repeated = nullptr;
    for (std::size_t i = 1; i < order.size(); ++i) {
      const Listing::Tensor& tensor = listing[order[i]];
      if (name_of(order[i - 1]) != listing.name(tensor)) continue;
      if (repeated == nullptr || tensor.key_at < repeated->key_at) repeated = &tensor;
    }
    if (repeated != nullptr && (!of_spec_ || kLengthBytes + repeated->key_at < of_spec_->offset())) {
      of_spec_.reset();
      fail_later(ErrorCode::kStDuplicateKey, repeated->key_at,
                 fmt::format("duplicate key '{}'", listing.name(*repeated)));
    }
    if (of_spec_) throw Error(*of_spec_);
    // Iterates backwards, so that the last tensor of each name is kept.
    const auto dropped = std::unique(order.rbegin(), order.rend(),
                                     [&](std::uint32_t a, std::uint32_t b) { return name_of(a) == name_of(b); });
    order.erase(order.begin(), dropped.base());
  }

  // Drops the tensors that by_name_ does not contain, sorts the rest by data, those of one place by name, and updates
  // by_name_.
  void sort_by_data() {
    const auto key = [&](const Listing::Tensor& tensor) {
      return std::tuple(tensor.begin, tensor.end, header_.listing.name(tensor));
    };
    std::vector<std::uint32_t>& by_name = header_.listing.by_name_;
    if (by_name.size() == tensors().size() && std::ranges::is_sorted(tensors(), {}, key)) return;
    std::vector<std::uint32_t> order = by_name;
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return key(tensors()[i]); });
    std::vector<std::uint32_t> position(tensors().size());
    std::vector<Listing::Tensor> sorted;
    sorted.reserve(order.size());
    for (const std::uint32_t i : order) {
      position[i] = static_cast<std::uint32_t>(sorted.size());
      sorted.push_back(tensors()[i]);
    }
    for (std::uint32_t& i : by_name) i = position[i];
    tensors() = std::move(sorted);
  }

  // In the order of the data, as the reference library checks it.
  void check_data(std::uint64_t file_bytes) {
    std::uint64_t position = 0;
    for (const Listing::Tensor& tensor : tensors()) {
      tensor_ = tensor;
      check_tensor(tensor, position);
      position = tensor.end;
    }
    const std::uint64_t data_begin = kLengthBytes + text_.size();
    if (position != file_bytes - data_begin) {
      throw Error(ErrorCode::kStDataEnd,
                  fmt::format("the tensors have {} bytes of data, the file has {}", position, file_bytes - data_begin),
                  data_begin + std::min(position, file_bytes - data_begin));
    }
  }

  void check_tensor(const Listing::Tensor& tensor, std::uint64_t position) const {
    const std::size_t at = tensor.key_at;
    if (tensor.begin != position || tensor.end < tensor.begin) {
      fail_in_tensor(ErrorCode::kStOffsets, at,
                     fmt::format("data_offsets are [{}, {}], but the previous data ends at {}", tensor.begin,
                                 tensor.end, position));
    }
    const auto bits = bits_of(header_.listing.shape(tensor), tensor.dtype);
    if (!bits) fail_in_tensor(ErrorCode::kStShapeOverflow, at, "shape and dtype give 2^64 bits or more");
    if (*bits % 8 != 0) {
      fail_in_tensor(ErrorCode::kStMisaligned, at, fmt::format("{} bits are not a whole number of bytes", *bits));
    }
    if (tensor.end - tensor.begin != *bits / 8) {
      fail_in_tensor(
          ErrorCode::kStTensorSize, at,
          fmt::format("data_offsets span {} bytes, shape and dtype give {}", tensor.end - tensor.begin, *bits / 8));
    }
  }

  const std::string_view text_;
  const SafetensorsProfile profile_;
  Header header_;

  State state_ = State::kRoot;
  State back_ = State::kEntry;  // the state after the value of a field
  bool in_metadata_ = false;    // the value of a key of the header is that of __metadata__
  bool metadata_seen_ = false;
  std::string metadata_key_;

  Listing::Tensor tensor_;  // the one being parsed or checked
  Field field_ = kUnknown;
  std::array<bool, kFieldCount> fields_seen_{};
  unsigned dtype_keys_ = 0;
  unsigned offset_count_ = 0;
  std::set<std::string, std::less<>> other_keys_;  // of the tensor, in the spec profile
  std::optional<Error> of_spec_;
  std::vector<std::set<std::string, std::less<>>> ignored_keys_;
};

std::optional<std::size_t> Listing::find(std::string_view name) const {
  const auto name_of = [&](std::uint32_t i) { return this->name(tensors_[i]); };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  if (found == by_name_.end() || name_of(*found) != name) return std::nullopt;
  return *found;
}

std::uint64_t check_header_length(std::span<const std::byte> bytes, std::uint64_t file_bytes) {
  if (bytes.size() < kLengthBytes || file_bytes < kLengthBytes) {
    throw Error(ErrorCode::kStTruncated, fmt::format("a file of {} bytes", file_bytes), 0);
  }
  const auto length = load<std::uint64_t>(bytes, 0);
  if (length > kHeaderBytesMax) {
    throw Error(ErrorCode::kStHeaderTooLarge,
                fmt::format("a header of {} bytes exceeds the maximum of {}", length, kHeaderBytesMax), 0);
  }
  if (length > file_bytes - kLengthBytes) {
    throw Error(ErrorCode::kStHeaderPastEnd,
                fmt::format("a header of {} bytes in a file of {} bytes", length, file_bytes), 0);
  }
  return length;
}

Header parse_header(std::string_view text, std::uint64_t file_bytes, SafetensorsProfile profile) {
  return HeaderParser(text, profile).parse(file_bytes);
}

namespace {

void append_string(std::string& text, std::string_view value) { text += nlohmann::json(value).dump(); }

}  // namespace

HeaderText::HeaderText(const Metadata& metadata, std::size_t text_bytes) {
  text_.reserve(std::min<std::size_t>(text_bytes, kHeaderBytesMax));
  text_ += '{';
  if (metadata.empty()) return;
  append_string(text_, kMetadataKey);
  char separator = ':';
  text_ += ":{";
  for (const auto& [key, value] : metadata) {
    if (separator == ',') text_ += ',';
    separator = ',';
    append_string(text_, key);
    text_ += ':';
    append_string(text_, value);
  }
  text_ += '}';
  check_length();
}

void HeaderText::check_length() const {
  if (text_.size() > kHeaderBytesMax) {
    throw Error(ErrorCode::kStUnwritable, fmt::format("a header of more than {} bytes", kHeaderBytesMax));
  }
}

void HeaderText::add(const HeaderEntry& entry) {
  if (text_.size() > 1) text_ += ',';
  append_string(text_, entry.name);
  text_ += fmt::format(R"(:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", dtypes()[entry.dtype].name,
                       fmt::join(entry.shape, ","), entry.begin, entry.end);
  check_length();
}

std::string HeaderText::finish() && {
  text_ += '}';
  text_.append((kLengthBytes - text_.size() % kLengthBytes) % kLengthBytes, ' ');
  check_length();
  std::array<std::byte, kLengthBytes> length;
  store<std::uint64_t>(length, 0, text_.size());
  text_.insert(0, as_text(length));
  return std::move(text_);
}

}  // namespace tzmark::safetensors
