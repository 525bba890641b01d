// Writes the file of a specification; see encode.h.
#include "adapters/reference/encode.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <vector>

#include "tzmark/error.h"
#include "tzmark/safetensors.h"
#include "tzmark/writer.h"

namespace tzmark::adapter {
namespace {

using Json = nlohmann::ordered_json;

// The cheapest key derivation that TZR-CRY-024 lets a writer choose: the suite writes many files.
constexpr std::uint64_t kOpslimit = 2;
constexpr std::uint64_t kMemlimitBytes = 19 << 20;

// The data files of a specification, each read once.
class DataFiles {
 public:
  ConstBuffer range(const Json& data) {
    const std::vector<std::byte>& content = read(data.at("file").get<std::string>());
    const auto offset = data.at("offset").get<std::uint64_t>();
    const auto length = data.at("length").get<std::uint64_t>();
    if (offset > content.size() || length > content.size() - offset) {
      throw Error(ErrorCode::kUsage, "the data of a tensor is beyond the end of its file");
    }
    return std::span(content).subspan(offset, length);
  }

 private:
  const std::vector<std::byte>& read(const std::string& name) {
    auto found = contents_.find(name);
    if (found != contents_.end()) return found->second;
    std::ifstream file(name, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    if (!file) throw Error(ErrorCode::kOpenFailed, name);
    const auto bytes = std::as_bytes(std::span(text));
    return contents_.emplace(name, std::vector(bytes.begin(), bytes.end())).first->second;
  }

  std::map<std::string, std::vector<std::byte>> contents_;
};

Path parse_path(const Json& elements) {
  Path path;
  for (const Json& element : elements) {
    if (element.is_string()) {
      path.emplace_back(element.get<std::string>());
    } else if (element.is_number_unsigned()) {
      path.emplace_back(element.get<std::uint64_t>());
    } else {
      throw Error(ErrorCode::kNameJson, element.dump() + " in a path");
    }
  }
  return path;
}

Kind parse_kind(const std::string& name) {
  for (const Kind kind : {Kind::kParameter, Kind::kBuffer, Kind::kStateDict}) {
    if (kind_name(kind) == name) return kind;
  }
  throw Error(ErrorCode::kUsage, fmt::format("unknown kind '{}'", name));
}

std::uint16_t parse_module_index(const Json& number) {
  if (!number.is_number_unsigned() || number.get<std::uint64_t>() > std::numeric_limits<std::uint16_t>::max()) {
    throw Error(ErrorCode::kUsage, fmt::format("the module index {} does not fit in two bytes", number.dump()));
  }
  return number.get<std::uint16_t>();
}

struct SpecifiedContent {
  TensorTable table;
  DataFiles files;
  std::vector<ConstBuffer> data;
};

void add_tensor(SpecifiedContent& content, const Json& tensor) {
  const auto shape = tensor.at("shape").get<std::vector<std::uint64_t>>();
  const Dtype dtype = dtype_from_name(tensor.at("dtype").get<std::string>());
  const bool meta = tensor.at("meta").get<bool>();
  const Json& data = tensor.at("data");
  const std::optional<std::uint64_t> nominal = nominal_bytes(shape, dtype.item_bytes);
  if (!nominal) throw Error(ErrorCode::kIndexShapeOverflow, "");
  const std::uint64_t length = data.is_null() ? 0 : data.at("length").get<std::uint64_t>();
  if (length != (meta ? 0 : *nominal)) {
    throw Error(ErrorCode::kIndexDataLength, fmt::format("{} bytes of data for a shape of {}", length, *nominal));
  }
  content.table.add(parse_path(tensor.at("path")), parse_kind(tensor.at("kind").get<std::string>()), dtype, shape, meta,
                    parse_module_index(tensor.at("module_index")));
  content.data.push_back(data.is_null() ? ConstBuffer() : content.files.range(data));
}

void write(const Json& specification, const std::string& out, std::optional<KeySource> key) {
  const bool omit_non_persistent = specification.contains("non_persistent_buffers");
  SpecifiedContent content;
  for (const Json& tensor : specification.at("tensors")) {
    if (omit_non_persistent && !tensor.value("persistent", true)) continue;
    add_tensor(content, tensor);
  }
  const auto layout = specification.at("layout").get<std::string>();
  if (layout == "safetensors") {
    write_safetensors(out, content.table, MemorySource(std::move(content.data)));
    return;
  }
  WriteOptions options;
  if (layout != "auto") {
    options.layout = layout_from_name(layout);
    if (!options.layout) throw Error(ErrorCode::kUsage, fmt::format("unknown layout '{}'", layout));
  }
  if (key) options.encrypt = EncryptOptions{std::move(*key), kDefaultChunkBytes, kOpslimit, kMemlimitBytes};
  write_file(out, content.table, MemorySource(std::move(content.data)), options);
}

}  // namespace

void encode(const std::string& specification_file, const std::string& out, std::optional<KeySource> key) {
  std::ifstream file(specification_file);
  if (!file) throw Error(ErrorCode::kOpenFailed, specification_file);
  try {
    write(Json::parse(file), out, std::move(key));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kUsage, fmt::format("no specification of a file: {}", error.what()));
  }
}

}  // namespace tzmark::adapter
