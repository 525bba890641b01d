// Mutated specifications for encode; see mutated_specification.h.
#include "mutation/mutated_specification.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/dtypes.h"
#include "model/tables.h"
#include "model/tensor_names.h"
#include "mutation/odd_values.h"
#include "mutation/random.h"
#include "runner/file_format.h"
#include "runner/sha256.h"
#include "runner/specification.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr std::uint64_t kSpecificationBytesMax = 16 << 10;
constexpr std::uint64_t kNameBytesMax = 65535;
constexpr std::size_t kDimsMax = 255;
constexpr std::size_t kManyDims = 32;
// From here on a writer that allocates what a tensor claims takes too much memory.
constexpr double kLargeClaimElements = 1 << 24;
// One in so many is one that no writer may write.
constexpr std::uint64_t kInvalidOneIn = 8;

std::uint64_t elements_of(const Json& tensor) {
  std::uint64_t elements = 1;
  for (const Json& dim : tensor.at("shape")) elements *= dim.get<std::uint64_t>();
  return elements;
}

bool is_plain_path(const Json& path) { return path.size() == 1 && path[0].is_string(); }

class SpecificationChange {
 public:
  SpecificationChange(const SpecificationSeeds& seeds, const SpecificationSeed& seed, std::uint64_t run_seed,
                      std::uint64_t number)
      : seeds_(&seeds), random_(run_seed, ~number), name_(fmt::format("mutant-{}-{}", run_seed, number)) {
    made_.base = seed.item;
    made_.specification = seed.specification;
    made_.item.operation = Operation::kEncode;
    made_.item.tier = "MUST";
    made_.item.verdict = Verdict::kValid;
    made_.item.key_hex = seed.item->key_hex;
    made_.item.passphrase = seed.item->passphrase;
    made_.item.rules = seed.item->rules;
  }

  MutatedSpecification make() {
    if (random_.one_in(3)) add_tensors(random_.pick<std::size_t>({2, 3, 4}));
    const std::size_t last = tensors().size() - 1;
    const auto at = random_.pick<std::size_t>({0, (last + 1) / 2, last});
    made_.change += fmt::format("tensor {}: ", at);
    change(tensors()[at]);
    complete();
    // What it takes comes last, so that it is of the valid content.
    if (random_.one_in(kInvalidOneIn)) spoil(tensors()[at]);
    return std::move(made_);
  }

 private:
  Json& tensors() { return made_.specification["tensors"]; }
  const Json& tensors() const { return made_.specification["tensors"]; }

  void change(Json& tensor) {
    switch (random_.below(11)) {
      case 0:
      case 1:
        return change_name(tensor);
      case 2:
        return change_position(tensor);
      case 3:
        return change_dtype(tensor);
      case 4:
      case 5:
        return change_length(tensor);
      case 6:
        return change_dims(tensor);
      case 7:
        tensor["module_index"] = unusual_module_index(random_);
        made_.change += fmt::format("its module_index is {}", tensor["module_index"].get<int>());
        return;
      case 8:
        made_.change += "many copies";
        return add_tensors(unusual_tensor_count(random_));
      case 9:
        return change_secret();
      default:
        return change_layout();
    }
  }

  bool has_positions_at_top() const {
    return std::ranges::any_of(tensors(), [](const Json& tensor) { return !tensor["path"][0].is_string(); });
  }

  bool paths_are_a_tree() const {
    std::vector<std::optional<model::Path>> paths;
    for (const Json& tensor : tensors()) {
      model::Path& path = paths.emplace_back().emplace();
      for (const Json& part : tensor["path"]) {
        part.is_string() ? path.emplace_back(part.get<std::string>()) : path.emplace_back(part.get<std::uint64_t>());
      }
    }
    return model::tree_defects(paths).empty();
  }

  // Keeps the old path if the new one conflicts with another.
  void rename(Json& tensor, Json path) {
    const Json old = tensor["path"];
    tensor["path"] = std::move(path);
    if (!paths_are_a_tree()) {
      tensor["path"] = old;
    } else if (!is_plain_path(tensor["path"])) {
      tensor["kind"] = "state_dict";
    }
  }

  // Data of its own.
  void set_data(Json& tensor, std::vector<std::uint64_t> shape, std::uint64_t bytes) {
    const std::string piece = fmt::format("{}-{}", name_, pieces_++);
    made_.specification["data"][piece] = {{"stream", piece}, {"length", bytes}};
    tensor["shape"] = std::move(shape);
    tensor["meta"] = false;
    tensor["data"] = {{"of", piece}, {"offset", 0}, {"length", bytes}};
  }

  void add_tensors(std::size_t count) {
    // One piece of data for all of them, because each is a file.
    constexpr std::uint64_t kBytesMax = 3;
    const std::string piece = fmt::format("{}-{}", name_, pieces_++);
    made_.specification["data"][piece] = {{"stream", piece}, {"length", kBytesMax * count}};
    for (std::size_t i = tensors().size(); i < count; ++i) {
      Json tensor = tensors()[0];
      Json path = Json::array();
      if (has_positions_at_top()) {
        path.push_back(1000000 + i);
        tensor["kind"] = "state_dict";
      } else {
        path.push_back(fmt::format("{}.{}", name_, i));
        if (!is_plain_path(tensor["path"])) tensor["kind"] = "state_dict";
      }
      tensor["path"] = path;
      tensor["dtype"] = "uint8";
      const std::uint64_t bytes = 1 + i % kBytesMax;
      tensor["shape"] = {bytes};
      tensor["meta"] = false;
      tensor["data"] = {{"of", piece}, {"offset", kBytesMax * i}, {"length", bytes}};
      tensors().push_back(std::move(tensor));
    }
    made_.change += fmt::format("{} tensors; ", tensors().size());
  }

  void change_name(Json& tensor) {
    std::string name = unusual_text(random_);
    name += unusual_text(random_);
    if (random_.one_in(2)) name.resize(std::max(unusual_name_bytes(random_), name.size()), 'n');
    const bool structured = has_positions_at_top() || random_.one_in(3);
    Json path = Json::array();
    if (has_positions_at_top()) path.push_back(unusual_position(random_));
    // Escapes make the name in the file longer.
    if (structured) name.resize(std::min<std::size_t>(name.size(), 4096));
    path.push_back(name);
    if (structured && path.size() == 1) path.push_back(0);
    rename(tensor, path);
    made_.change += fmt::format("its path is of {} bytes", name.size());
  }

  void change_position(Json& tensor) {
    Json path = Json::array();
    if (!has_positions_at_top()) path.push_back(name_);
    path.push_back(unusual_position(random_));
    if (random_.one_in(2)) path.push_back(unusual_position(random_));
    made_.change += fmt::format("its path is {}", path.dump());
    rename(tensor, std::move(path));
  }

  void change_dtype(Json& tensor) {
    const auto at = static_cast<std::ptrdiff_t>(random_.below(seeds_->wire_dtypes.size()));
    const auto& [torch, wire] = *std::next(seeds_->wire_dtypes.begin(), at);
    tensor["dtype"] = torch;
    made_.change += fmt::format("its dtype is {}", torch);
    const auto count = random_.pick<std::uint64_t>({1, 2, 3, 7, 255, 256, 257});
    // The old shape of a meta tensor may give more than 2^63 bytes of the new type.
    if (tensor["data"].is_null()) {
      tensor["shape"] = {count};
      return;
    }
    // Any bytes are no bool.
    if (torch == "bool") return set_zeros(tensor, count);
    set_data(tensor, {count}, count * model::dtype_of(wire).item_bytes);
  }

  void set_zeros(Json& tensor, std::uint64_t count) {
    set_data(tensor, {count}, count);
    made_.specification["data"][tensor["data"]["of"].get<std::string>()] = {{"hex", std::string(2 * count, '0')}};
  }

  void change_length(Json& tensor) {
    std::uint64_t bytes = unusual_length(random_);
    if (random_.one_in(24)) bytes = (std::uint64_t{1} << 21) + random_.pick<std::uint64_t>({UINT64_MAX, 0, 1, 5});
    tensor["dtype"] = "uint8";
    set_data(tensor, {bytes}, bytes);
    made_.change += fmt::format("its data has {} bytes", bytes);
  }

  void change_dims(Json& tensor) {
    tensor["dtype"] = "uint8";
    switch (random_.below(4)) {
      case 0:
        set_data(tensor, random_.one_in(2) ? std::vector<std::uint64_t>{2, 3, 2} : std::vector<std::uint64_t>{3, 2, 2},
                 12);
        break;
      case 1: {
        std::vector<std::uint64_t> shape(random_.pick<std::size_t>({5, 8, 9, 31, 32, 33, 127, 128, 254}), 1);
        shape.push_back(2);
        set_data(tensor, std::move(shape), 2);
        break;
      }
      case 2:
        set_data(tensor, {unusual_dim(k63 - 1, random_), 0}, 0);
        break;
      default:
        tensor["shape"] = {unusual_dim(k63 - 1, random_)};
        tensor["meta"] = true;
        tensor["data"] = nullptr;
    }
    made_.change += fmt::format("it has {} other dimensions", tensor["shape"].size());
  }

  void change_secret() {
    Case& item = made_.item;
    const bool had = item.key_hex || item.passphrase;
    item.key_hex.reset();
    item.passphrase.reset();
    if (had && random_.one_in(2)) {
      made_.change += "and no key";
    } else if (random_.one_in(4)) {
      item.passphrase = random_.pick<std::string>({"x\n", " x", "\xef\xbb\xbfx", "\xc3\xa9"});
      made_.change += "and another passphrase";
    } else {
      item.key_hex = std::string(62, 'a') + random_.pick<std::string>({"00", "0a", "ff"});
      made_.change += "and another key";
    }
  }

  void change_layout() {
    const auto number = random_.below(model::layouts().size() + 1);
    const std::string layout = number == 0 ? "auto" : std::string(model::layouts()[number - 1].name);
    made_.specification["layout"] = layout;
    made_.change += fmt::format("and the layout {}", layout);
  }

  // The lowest layout that holds the content.
  const model::Layout& needed_layout() const {
    const auto any = [&](const auto& test) { return std::ranges::any_of(tensors(), test); };
    const auto is_long = [](const Json& tensor) {
      return std::ranges::any_of(tensor["shape"], [](const Json& dim) { return dim.get<std::uint64_t>() >= k32; });
    };
    return model::lowest_layout(
        {.long_dims = any(is_long),
         .opaque_dtypes = any([&](const Json& tensor) { return wire_of(tensor).find('\0') != std::string::npos; }),
         .meta_tensors = any([](const Json& tensor) { return tensor["meta"] == true; }),
         .encryption = is_encrypted()});
  }

  const std::string& wire_of(const Json& tensor) const {
    return seeds_->wire_dtypes.at(tensor.at("dtype").get<std::string>());
  }

  // Whether a layout can hold what needs another one.
  bool can_hold(const model::Layout& layout, const model::Layout& needed) const {
    if (needed.long_dims) return layout.long_dims;
    if (layout.must_be_encrypted && !is_encrypted()) return false;
    return layout.data_version >= needed.data_version;
  }

  bool is_encrypted() const { return made_.item.key_hex || made_.item.passphrase; }

  void complete() {
    Case& item = made_.item;
    const model::Layout& needed = needed_layout();
    Json& asked = made_.specification["layout"];
    if (asked != "auto" && !can_hold(model::layout_named(asked.get<std::string>()), needed)) asked = "auto";
    const model::Layout& layout = asked == "auto" ? needed : model::layout_named(asked.get<std::string>());
    item.layout = layout.name;
    Json listed = Json::array();
    std::uint64_t bytes = 0;
    for (const Json& tensor : tensors()) {
      listed.push_back(expected_of(tensor));
      bytes += listed.back()["data_length"].get<std::uint64_t>();
    }
    item.limits = limits_for_file(bytes, item.passphrase.has_value());
    item.features = features();
    made_.expected = {{"data_version", layout.data_version},
                      {"layout", item.layout},
                      {"encrypted", is_encrypted()},
                      {"tensors", std::move(listed)}};
  }

  Json expected_of(const Json& tensor) const {
    const Json& data = tensor.at("data");
    Json sha256;
    if (!data.is_null()) {
      const std::string piece = data_of_recipe(made_.specification["data"].at(data["of"].get<std::string>()));
      const auto bytes = std::as_bytes(std::span(piece)).subspan(data["offset"], data["length"]);
      sha256 = sha256_of(bytes);
    }
    return {{"path", tensor["path"]},
            {"kind", tensor["kind"]},
            {"module_index", tensor["module_index"]},
            {"dtype", tensor["dtype"]},
            {"wire_dtype", wire_of(tensor)},
            {"shape", tensor["shape"]},
            {"meta", tensor["meta"]},
            {"data_length", data.is_null() ? Json(0) : data["length"]},
            {"sha256", sha256}};
  }

  std::vector<std::string> features() const {
    std::vector<std::string> features;
    const auto add = [&](const char* feature, bool there) {
      if (there) features.emplace_back(feature);
    };
    const auto any = [&](const auto& test) { return std::ranges::any_of(tensors(), test); };
    add("encryption", made_.item.key_hex || made_.item.passphrase);
    add("passphrase", made_.item.passphrase.has_value());
    add("forced-layout", made_.specification["layout"] != "auto");
    add("meta", any([](const Json& tensor) { return tensor["meta"] == true; }));
    add("opaque-dtype", any([&](const Json& tensor) { return wire_of(tensor).find('\0') != std::string::npos; }));
    add("structured-names", any([](const Json& tensor) { return !is_plain_path(tensor["path"]); }));
    add("many-dims", any([](const Json& tensor) { return tensor["shape"].size() > kManyDims; }));
    add("large-claim", any([](const Json& tensor) {
          double elements = 1;
          for (const Json& dim : tensor["shape"]) elements *= std::max(dim.get<double>(), 1.0);
          return elements > kLargeClaimElements;
        }));
    return features;
  }

  // Breaks a rule of writers.
  void spoil(Json& tensor) {
    Case& item = made_.item;
    const auto invalid = [&](std::vector<std::string> rules, std::string_view what) {
      item.verdict = Verdict::kInvalid;
      item.rules = std::move(rules);
      item.features = features();
      made_.expected.reset();
      made_.change += what;
    };
    switch (random_.below(5)) {
      case 0:
        tensors().push_back(tensors()[0]);
        return invalid({"TZR-NAM-006"}, "; and the first one stands there twice");
      case 1:
        tensor["path"] = Json::array({std::string(kNameBytesMax + 1, 'n')});
        return invalid({"TZR-IDX-002", "TZR-REC-003", "TZR-NAM-008"}, "; and its name has a byte too many");
      case 2:
        set_data(tensor, std::vector<std::uint64_t>(kDimsMax + 1, 1), 1);
        tensor["dtype"] = "uint8";
        return invalid({"TZR-IDX-002", "TZR-REC-003"}, "; and it has a dimension too many");
      case 3:
        if (tensor["data"].is_null() || elements_of(tensor) == 0) return;
        tensor["shape"].insert(tensor["shape"].begin(), 2);
        return invalid({"TZR-IDX-006"}, "; and half of its data");
      default:
        tensor["shape"] = {k63, 1};
        tensor["meta"] = true;
        tensor["data"] = nullptr;
        made_.specification["layout"] = "auto";
        return invalid({"TZR-IDX-005"}, "; and it has 2^63 bytes");
    }
  }

  const SpecificationSeeds* seeds_;
  Random random_;
  std::string name_;
  std::size_t pieces_ = 0;
  MutatedSpecification made_;
};

}  // namespace

SpecificationSeeds load_specification_seeds(const Manifest& manifest, const std::vector<Case>& cases) {
  SpecificationSeeds seeds;
  for (const Case& item : cases) {
    const auto has = [&](const char* feature) {
      return std::ranges::find(item.features, feature) != item.features.end();
    };
    const bool fits = item.operation == Operation::kEncode && item.verdict == Verdict::kValid &&
                      // What changes specifications knows the order that a file will have.
                      !format_of_layout(item.layout).writer_orders && item.size_bytes <= kSpecificationBytesMax &&
                      !has("shared-memory") && !has("non-persistent-buffers");
    if (!fits) continue;
    const std::vector<std::byte> text = read_case_file(manifest, item);
    const auto* const begin = reinterpret_cast<const char*>(text.data());
    std::vector<Case> alone = {item};
    load_expected(manifest, alone);
    SpecificationSeed seed{&item, Json::parse(begin, begin + text.size()), expected_of(alone[0]).value()};
    for (const Json& tensor : seed.expected["tensors"]) {
      seeds.wire_dtypes.emplace(tensor["dtype"].get<std::string>(), tensor["wire_dtype"].get<std::string>());
    }
    seeds.list.push_back(std::move(seed));
  }
  return seeds;
}

MutatedSpecification make_mutated_specification(const SpecificationSeeds& seeds, std::uint64_t run_seed,
                                                std::uint64_t number) {
  Random random(run_seed, number);
  return SpecificationChange(seeds, random.pick(seeds.list), run_seed, number).make();
}

}  // namespace tzmark::conformance::mutation
