// Reading a safetensors file for the suite; see describe.h.
#include "safetensors_model/describe.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>

#include "model/text.h"
#include "safetensors_model/dtypes.h"
#include "safetensors_model/json_reader.h"

namespace tzmark::conformance::safetensors {
namespace {

using model::Clause;
using model::Content;
using model::Defect;
using model::Description;
using model::Field;
using model::Json;
using model::Words;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kHeaderBytesMax = 100'000'000;
constexpr std::string_view kMetadata = "__metadata__";

// A value in the header. Offsets are those of the file.
struct Place {
  std::uint64_t begin = 0, end = 0;

  bool is_there() const { return end != 0; }
};

constexpr std::array<std::string_view, 3> kValueNames = {"dtype", "shape", "data_offsets"};

struct Tensor {
  std::string name;
  Place key;
  const Dtype* dtype = nullptr;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;
  std::array<Place, 3> places;  // of its values, in the order of kValueNames
  bool is_whole = true;         // no value is missing or of the wrong type

  std::uint64_t begin() const { return offsets[0]; }
  std::uint64_t end() const { return offsets[1]; }
};

std::string sha256_of(model::Bytes bytes) {
  std::array<std::byte, 32> digest{};
  ::EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), nullptr, ::EVP_sha256(),
               nullptr);
  return model::hex_digits(digest);
}

// Thrown where no reader can go on.
struct Stopped {};

class Reading {
 public:
  Reading(model::Bytes file, Profile profile, const std::set<std::string>& without)
      : file_(file), is_spec_(profile == Profile::kSpec), without_(without) {
    result_.layout = "safetensors";
  }

  Description run(bool with_content) {
    try {
      read_length();
      read_header();
      add_defects_of_spec();
      order_by_data();
      judge_data();
    } catch (const Stopped&) {
      is_stopped_ = true;
    }
    add_defects_of_spec();
    add_fields();
    const bool refused = std::ranges::any_of(result_.defects, model::refuses_decode);
    if (with_content && !refused && !is_stopped_) write_document();
    return std::move(result_);
  }

 private:
  // Returns whether a reader checks the rule.
  bool defect(std::string_view rule, std::uint64_t offset, std::string text,
              model::StructureId structure = {"header"}) {
    if (without_.contains(std::string(rule))) return false;
    Defect found;
    found.rule = std::string(rule);
    found.offset = offset;
    found.structure = structure;
    found.wanted = Words{std::move(text)};
    result_.defects.push_back(std::move(found));
    end_after_many();
    return true;
  }
  // What the written description alone refuses comes after what the library refuses, too (SAFETENSORS.md 8).
  void defect_of_spec(std::string_view rule, std::uint64_t offset, std::string text) {
    if (!is_spec_) return;
    // The first is the one that is reported.
    if (!of_spec_.empty()) return;
    std::swap(result_.defects, of_spec_);
    defect(rule, offset, std::move(text));
    std::swap(result_.defects, of_spec_);
  }
  // A file of nothing but defects would take a hundred times its size.
  void end_after_many() const {
    constexpr std::size_t kDefectsMax = 1'000;
    if (result_.defects.size() + of_spec_.size() >= kDefectsMax) throw Stopped{};
  }
  [[noreturn]] void stop(std::string_view rule, std::uint64_t offset, std::string text,
                         model::StructureId structure = {"header"}) {
    defect(rule, offset, std::move(text), structure);
    throw Stopped{};
  }

  void add_defects_of_spec() {
    std::ranges::move(of_spec_, std::back_inserter(result_.defects));
    of_spec_.clear();
  }

  void read_length() {
    if (file_.size() < kLengthBytes) stop("ST-001", 0, "the file is too short for the length of a header", {"file"});
    header_bytes_ = model::little_endian(file_.first(kLengthBytes));
    if (header_bytes_ > kHeaderBytesMax) {
      const bool checked = defect("ST-002", 0, fmt::format("its length is {}, above 100000000", header_bytes_));
      if (checked) throw Stopped{};
    }
    if (header_bytes_ > file_.size() - kLengthBytes) {
      stop("ST-003", 0, fmt::format("its length is {}, and the file has {} bytes", header_bytes_, file_.size()));
    }
    data_begin_ = kLengthBytes + header_bytes_;
    text_ = model::text_of(file_.subspan(kLengthBytes, header_bytes_));
  }

  std::uint64_t in_file(std::size_t offset) const { return kLengthBytes + offset; }

  // Of the first byte that is no UTF-8.
  std::size_t valid_bytes() const {
    std::size_t begin = 0;
    while (begin < text_.size()) {
      std::size_t bytes = 1;
      while (bytes <= 4 && !model::is_utf8(text_.substr(begin, bytes))) ++bytes;
      if (bytes > 4 || begin + bytes > text_.size()) break;
      begin += bytes;
    }
    return begin;
  }

  void read_header() {
    if (!model::is_utf8(text_)) {
      if (defect("ST-004", in_file(valid_bytes()), "it is not UTF-8")) throw Stopped{};
    }
    JsonReader json(text_);
    if (!is_spec_ || without_.contains("ST-005")) json.skip_space();
    if (json.is_at_end() || text_[json.at()] != '{') {
      stop("ST-005", in_file(json.at()), "it does not begin with an opening brace");
    }
    try {
      read_object(json);
      if (!is_spec_) json.skip_space();
      std::size_t at = json.at();
      while (at < text_.size() && text_[at] == ' ') ++at;
      if (at < text_.size()) defect("ST-007", in_file(at), "something other than spaces follows its object");
    } catch (const NotJson& error) {
      stop("ST-006", in_file(error.offset), "it is no JSON: " + error.what);
    }
  }

  void read_object(JsonReader& json) {
    std::map<std::string, std::size_t> numbers;  // of the tensors, by name
    bool has_metadata = false;
    std::string key;
    Place place;
    json.object(
        [&](std::string name, std::size_t key_at) {
          key = std::move(name);
          place = {in_file(key_at), in_file(json.at())};
          if (key == kMetadata) {
            if (has_metadata) defect("ST-008", place.begin, "it has metadata twice");
            has_metadata = true;
          } else if (!numbers.try_emplace(key, tensors_.size()).second) {
            defect_of_spec("ST-008", place.begin, fmt::format("it has the tensor {} twice", model::in_quotes(key)));
          }
        },
        [&] {
          if (key == kMetadata) return read_metadata(json, place);
          Tensor tensor = read_tensor(json);
          tensor.name = key;
          tensor.key = place;
          is_whole_ = is_whole_ && tensor.is_whole;
          const std::size_t number = numbers.at(key);
          if (number == tensors_.size()) {
            tensors_.push_back(std::move(tensor));
          } else {
            tensors_[number] = std::move(tensor);
          }
        });
  }

  // Reads any value, whose keys no object may have twice.
  void ignore_value(JsonReader& json) {
    json.any_value([&](std::size_t key_at) { defect_of_spec("ST-008", in_file(key_at), "an object has a key twice"); });
  }

  // Reads a value of the wrong type. A reader sees that an object or a list is one at its first character, and whether
  // anything else is a value at its last.
  template <typename Say>
  void refuse_value(JsonReader& json, const Say& say) {
    const bool is_container = json.next() == '{' || json.next() == '[';
    if (is_container) say();
    ignore_value(json);
    if (!is_container) say();
  }

  void read_metadata(JsonReader& json, Place key) {
    const std::size_t begin = json.at();
    texts_.clear();
    if (json.next() == '{') {
      std::string* text = nullptr;
      json.object(
          [&](std::string name, std::size_t key_at) {
            const auto [found, is_new] = texts_.try_emplace(std::move(name));
            text = &found->second;
            if (!is_new) defect_of_spec("ST-008", in_file(key_at), "the metadata has a key twice");
          },
          [&] {
            const std::size_t value_at = json.at();
            if (json.next() == '"') {
              *text = json.string();
              return;
            }
            refuse_value(json, [&] { defect("ST-009", in_file(value_at), "a value of the metadata is no string"); });
          });
    } else {
      const bool is_null = text_.substr(begin).starts_with("null");
      refuse_value(json, [&] {
        constexpr std::string_view kSaid = "the metadata is no object";
        is_null ? defect_of_spec("ST-009", in_file(begin), std::string(kSaid))
                : static_cast<void>(defect("ST-009", in_file(begin), std::string(kSaid)));
      });
    }
    metadata_.push_back({key.begin, in_file(json.at())});
  }

  // Null for a name that no reader needs.
  static Place* place_of(Tensor& tensor, std::string_view name) {
    const auto found = std::ranges::find(kValueNames, name);
    return found == kValueNames.end() ? nullptr : &tensor.places[static_cast<std::size_t>(found - kValueNames.begin())];
  }

  Tensor read_tensor(JsonReader& json) {
    Tensor tensor;
    const std::size_t begin = json.at();
    const auto read_value = [&](std::string_view name) {
      const std::size_t value_at = json.at();
      if (name == "dtype") {
        read_dtype(json, tensor);
      } else if (name == "shape") {
        tensor.shape = read_numbers(json, tensor, "shape", std::nullopt);
      } else {
        tensor.offsets = read_numbers(json, tensor, "data_offsets", 2);
      }
      *place_of(tensor, name) = {in_file(value_at), in_file(json.at())};
    };
    if (json.next() == '[' && !is_spec_) {
      const std::size_t end = json.array([&](std::size_t number) {
        if (number < kValueNames.size()) return read_value(kValueNames[number]);
        wrong_type(tensor, json.at(), "a tensor as a list has more than three values");
        ignore_value(json);
      });
      if (!tensor.places.back().is_there()) wrong_type(tensor, end, "a tensor as a list has three values");
      return tensor;
    }
    if (json.next() != '{') {
      refuse_value(json, [&] { wrong_type(tensor, begin, "a tensor is no object"); });
      return tensor;
    }
    std::set<std::string> others;
    std::string key;
    const std::size_t end = json.object(
        [&](std::string name, std::size_t key_at) {
          key = std::move(name);
          const std::string said = fmt::format("a tensor has {} twice", model::in_quotes(key));
          if (const Place* const place = place_of(tensor, key)) {
            if (place->is_there()) defect("ST-008", in_file(key_at), said);
          } else if (!others.insert(key).second) {
            defect_of_spec("ST-008", in_file(key_at), said);
          }
        },
        [&] { place_of(tensor, key) != nullptr ? read_value(key) : ignore_value(json); });
    for (std::size_t i = 0; i < kValueNames.size(); ++i) {
      if (!tensor.places[i].is_there()) wrong_type(tensor, end, fmt::format("a tensor has no {}", kValueNames[i]));
    }
    return tensor;
  }

  void wrong_type(Tensor& tensor, std::size_t at, std::string text) {
    defect("ST-006", in_file(at), std::move(text));
    tensor.is_whole = false;
  }

  void read_dtype(JsonReader& json, Tensor& tensor) {
    const std::size_t begin = json.at();
    const auto look_up = [&](const std::string& name, std::size_t at) {
      tensor.dtype = dtype_of(name);
      if (tensor.dtype != nullptr) return;
      tensor.is_whole = false;
      defect("ST-010", in_file(at), fmt::format("{} is no dtype", model::in_quotes(name)));
    };
    if (json.next() == '"') {
      look_up(json.string(), begin);
    } else if (json.next() == '{' && !is_spec_) {
      std::size_t members = 0;
      bool is_null = true;
      json.object([&](const std::string& key, std::size_t key_at) { look_up(key, key_at); },
                  [&] {
                    ++members;
                    is_null = is_null && text_.substr(json.at()).starts_with("null");
                    ignore_value(json);
                  });
      if (members != 1 || !is_null) return wrong_type(tensor, begin, "a dtype as an object has one key, with null");
    } else {
      refuse_value(json, [&] { wrong_type(tensor, begin, "a dtype is no string"); });
    }
  }

  std::vector<std::uint64_t> read_numbers(JsonReader& json, Tensor& tensor, std::string_view name,
                                          std::optional<std::size_t> count) {
    std::vector<std::uint64_t> numbers;
    if (json.next() != '[') {
      const std::size_t begin = json.at();
      refuse_value(json, [&] { wrong_type(tensor, begin, fmt::format("{} is no list", name)); });
      return numbers;
    }
    const std::size_t end = json.array([&](std::size_t number) {
      const std::size_t begin = json.at();
      if (count && number == *count)
        wrong_type(tensor, begin, fmt::format("{} has more than {} numbers", name, *count));
      const char first = json.next();
      ignore_value(json);
      const std::string_view written = text_.substr(begin, json.at() - begin);
      std::uint64_t value = 0;
      const auto [rest, error] = std::from_chars(written.data(), written.data() + written.size(), value);
      if (first < '0' || first > '9' || error != std::errc() || rest != written.data() + written.size()) {
        wrong_type(tensor, begin, fmt::format("a number of {} is {}", name, model::in_quotes(written)));
      }
      numbers.push_back(value);
    });
    if (count && numbers.size() < *count) {
      wrong_type(tensor, end, fmt::format("{} has fewer than {} numbers", name, *count));
    }
    return numbers;
  }

  void order_by_data() {
    if (!is_whole_) throw Stopped{};
    // Those of one place by name: a reader that keeps them in a map has lost the order of the header.
    std::ranges::stable_sort(tensors_, {},
                             [](const Tensor& t) { return std::tuple(t.begin(), t.end(), std::string_view(t.name)); });
  }

  // What shape and dtype give; nothing if it does not fit into 64 bits.
  static std::optional<std::uint64_t> bits_of(const Tensor& tensor) {
    constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t product = 1;
    const auto multiply = [&](std::uint64_t factor) {
      if (factor != 0 && product > kMax / factor) return false;
      product *= factor;
      return true;
    };
    for (const std::uint64_t size : tensor.shape) {
      if (!multiply(size)) return std::nullopt;
    }
    if (!multiply(tensor.dtype->bits)) return std::nullopt;
    return product;
  }

  void judge_data() {
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Tensor& tensor = tensors_[i];
      const model::StructureId self{"tensor", i};
      const std::uint64_t at = tensor.key.begin;
      if (tensor.begin() != end || tensor.end() < tensor.begin()) {
        defect("ST-014", at,
               fmt::format("its data_offsets are {} and {}, and the data before it ends at {}", tensor.begin(),
                           tensor.end(), end),
               self);
      }
      const auto bits = bits_of(tensor);
      const std::uint64_t bytes = tensor.end() - tensor.begin();
      if (!bits) {
        defect("ST-011", at, "its size is 2^64 bits or more", self);
      } else if (*bits % 8 != 0) {
        defect("ST-012", at, fmt::format("its size is {} bits, which is no whole number of bytes", *bits), self);
      } else if (*bits / 8 != bytes) {
        defect("ST-013", at,
               fmt::format("its data_offsets span {} bytes, and shape and dtype give {}", bytes, *bits / 8), self);
      }
      end = std::max(end, tensor.end());
    }
    const std::uint64_t data_bytes = file_.size() - data_begin_;
    if (end != data_bytes) {
      defect("ST-015", data_begin_ + std::min(end, data_bytes),
             fmt::format("the data ends at byte {} of the file, and the file at {}", data_begin_ + end, file_.size()),
             {"file"});
    }
  }

  void add_field(Place place, const model::StructureId& structure, std::string name, std::string value) {
    if (place.begin < place.end) {
      result_.fields.push_back(
          {place.begin, place.end - place.begin, structure.label(), std::move(name), std::move(value), 0});
    }
  }

  void add_fields() {
    add_field({0, std::min<std::uint64_t>(kLengthBytes, file_.size())}, {"file"}, "length of the header",
              file_.size() < kLengthBytes ? model::hex_folded(file_) : std::to_string(header_bytes_));
    for (const Place& place : metadata_) add_field(place, {"header"}, "metadata", shown(place));
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Tensor& tensor = tensors_[i];
      const model::StructureId self{"tensor", i};
      add_field(tensor.key, self, "name", model::in_quotes(tensor.name));
      for (std::size_t value = 0; value < kValueNames.size(); ++value) {
        if (const Place& place = tensor.places[value]; place.is_there()) {
          add_field(place, self, std::string(kValueNames[value]), shown(place));
        }
      }
      add_data(tensor, self);
    }
    std::ranges::stable_sort(result_.fields, {}, &Field::offset);
    fill_gaps();
  }

  void add_data(const Tensor& tensor, const model::StructureId& self) {
    if (tensor.offsets.size() != 2 || data_begin_ == 0) return;
    const std::uint64_t data_bytes = file_.size() - data_begin_;
    const std::uint64_t begin = std::min(tensor.begin(), data_bytes), end = std::min(tensor.end(), data_bytes);
    if (begin >= end) return;
    add_field({data_begin_ + begin, data_begin_ + end}, self, "data",
              model::hex_folded(file_.subspan(data_begin_ + begin, end - begin)));
  }

  std::string shown(Place place) const {
    return model::in_quotes(text_.substr(place.begin - kLengthBytes, place.end - place.begin));
  }

  // Every byte has one field: overlaps are cut, and what is left is JSON or belongs to nothing.
  void fill_gaps() {
    std::vector<Field> all;
    std::uint64_t at = 0;
    const auto add_gap = [&](std::uint64_t end) {
      while (at < end) {
        const bool in_header = data_begin_ == 0 || at < data_begin_;
        const std::uint64_t until = in_header && data_begin_ != 0 ? std::min(end, data_begin_) : end;
        const bool is_text = in_header && data_begin_ != 0;
        all.push_back({at, until - at, in_header ? "header" : "file", is_text ? "JSON" : "bytes of no tensor",
                       is_text ? shown({at, until}) : model::hex_folded(file_.subspan(at, until - at)), 0});
        at = until;
      }
    };
    for (Field& field : result_.fields) {
      add_gap(field.offset);
      if (field.offset + field.size <= at) continue;
      field.size -= at - field.offset;
      field.offset = at;
      at += field.size;
      all.push_back(std::move(field));
    }
    add_gap(file_.size());
    result_.fields = std::move(all);
  }

  void write_document() {
    Json texts = Json::array();
    for (const auto& [key, text] : texts_) texts.push_back(Json::array({key, text}));
    Json tensors = Json::array();
    for (const Tensor& tensor : tensors_) {
      const std::uint64_t bytes = tensor.end() - tensor.begin();
      const bool is_inside = tensor.end() >= tensor.begin() && tensor.end() <= file_.size() - data_begin_;
      tensors.push_back(
          {{"path", Json::array({tensor.name})},
           {"kind", "state_dict"},
           {"module_index", 0},
           {"dtype", tensor.dtype->torch.empty() ? Json() : Json(tensor.dtype->torch)},
           {"wire_dtype", tensor.dtype->name},
           {"shape", tensor.shape},
           {"meta", false},
           {"data_length", bytes},
           {"sha256", is_inside ? Json(sha256_of(file_.subspan(data_begin_ + tensor.begin(), bytes))) : Json()},
           {"crc32_field", nullptr},
           {"sha256_field", nullptr}});
    }
    result_.document = {{"data_version", nullptr},
                        {"layout", "safetensors"},
                        {"encrypted", false},
                        {"metadata", std::move(texts)},
                        {"tensors", std::move(tensors)}};
  }

  const model::Bytes file_;
  const bool is_spec_;
  const std::set<std::string>& without_;
  std::uint64_t header_bytes_ = 0;
  std::uint64_t data_begin_ = 0;  // 0: not known
  std::string_view text_;
  std::vector<Place> metadata_;
  std::map<std::string, std::string> texts_;  // of the metadata
  std::vector<Tensor> tensors_;
  bool is_whole_ = true;
  bool is_stopped_ = false;
  std::vector<Defect> of_spec_;
  Description result_;
};

}  // namespace

model::Description describe(model::Bytes file, Profile profile, const std::set<std::string>& without) {
  return Reading(file, profile, without).run(true);
}

model::Outline describe_structure(model::Bytes file, Profile profile, const std::set<std::string>& without) {
  Description description = Reading(file, profile, without).run(false);
  return {std::move(description.defects), [fields = std::move(description.fields)](const model::FieldVisitor& visit) {
            for (const Field& field : fields) visit(field);
          }};
}

}  // namespace tzmark::conformance::safetensors
