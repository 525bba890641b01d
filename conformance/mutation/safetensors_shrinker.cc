// Minimizes a safetensors file: tensors with their data first, then shapes, names, all values of its JSON, and data.

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <utility>

#include "mutation/format_mutation.h"
#include "mutation/reduce.h"
#include "mutation/safetensors_draft.h"

namespace tzmark::conformance::mutation {
namespace {

using Kind = JsonValue::Kind;
// The places of a value in the values that hold it, from the root.
using Path = std::vector<std::size_t>;

// Rounds of all steps, after which the rest is not worth the time.
constexpr int kRoundsMax = 8;
// In a larger header, every value by itself would take too long.
constexpr std::size_t kValuesMax = 2'000;

JsonValue& value_at(JsonValue& root, const Path& path) {
  JsonValue* value = &root;
  for (const std::size_t place : path) value = &value->items[place].value;
  return *value;
}

void add_paths(const JsonValue& value, Path& path, std::vector<Path>& paths) {
  if (paths.size() == kValuesMax) return;
  paths.push_back(path);
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    path.push_back(i);
    add_paths(value.items[i].value, path, paths);
    path.pop_back();
  }
}

class SafetensorsShrinker {
 public:
  SafetensorsShrinker(SafetensorsDraft draft, model::Bytes file, Asking& asking)
      : best_(std::move(draft)), best_file_(file.begin(), file.end()), asking_(&asking) {}

  std::vector<std::byte> run() {
    // All at once, since each question about a large file takes long.
    change([](SafetensorsDraft& draft) {
      std::vector<NewShape> shapes;
      for (const std::size_t place : tensor_places(draft)) shapes.push_back({place, {}, "U8"});
      reshape(draft, shapes);
    });
    for (int round = 0; round < kRoundsMax && !asking_->is_late(); ++round) {
      const std::size_t before = improvements_;
      drop_tensors();
      for (const std::size_t place : tensor_places(best_)) shrink_tensor(place);
      shrink_json();
      shrink_rest();
      if (improvements_ == before) break;
    }
    return std::move(best_file_);
  }

 private:
  template <typename Change>
  bool change(const Change& change) {
    if (asking_->is_late()) return false;
    SafetensorsDraft candidate = best_;
    change(candidate);
    std::vector<std::byte> file = write(candidate);
    if (!asking_->holds(file)) return false;
    best_ = std::move(candidate);
    best_file_ = std::move(file);
    ++improvements_;
    return true;
  }

  void drop_tensors() {
    reduce(tensor_places(best_).size(), [&](std::size_t begin, std::size_t end) {
      return change([&](SafetensorsDraft& draft) {
        const std::vector<std::size_t> places = tensor_places(draft);
        erase_tensors(draft, {places.begin() + static_cast<std::ptrdiff_t>(begin),
                              places.begin() + static_cast<std::ptrdiff_t>(end)});
      });
    });
  }

  void shrink_tensor(std::size_t place) {
    const auto to = [&](const std::vector<std::uint64_t>& shape, const std::string& dtype) {
      return change([&](SafetensorsDraft& draft) { reshape(draft, {{place, shape, dtype}}); });
    };
    const auto shape = [&] {
      return numbers_in(find(best_.root.items[place].value, "shape")).value_or(std::vector<std::uint64_t>());
    };
    const auto dtype = [&] { return dtype_name(best_.root.items[place]); };
    if (!to({}, "U8") && !to({0}, "U8") && !to({1}, "U8")) {
      if (!to({}, dtype()) && !to({0}, dtype())) to({1}, dtype());
    }
    if (dtype() != "U8") to(shape(), "U8");
    reduce(shape().size(), [&](std::size_t begin, std::size_t end) {
      std::vector<std::uint64_t> rest = shape();
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(begin), rest.begin() + static_cast<std::ptrdiff_t>(end));
      return to(rest, dtype());
    });
    for (std::size_t dim = 0; dim < shape().size(); ++dim) {
      reduce_number(shape()[dim], [&](std::uint64_t number) {
        std::vector<std::uint64_t> other = shape();
        other[dim] = number;
        return to(other, dtype());
      });
    }
    shrink_rows(place);
    shrink_name(place);
  }

  // For failures that depend on data after its beginning.
  void shrink_rows(std::size_t place) {
    const JsonItem& tensor = best_.root.items[place];
    const std::vector<std::uint64_t> shape =
        numbers_in(find(tensor.value, "shape")).value_or(std::vector<std::uint64_t>());
    const auto range = data_range(tensor);
    const auto bytes = size_bytes_of(dtype_name(tensor), shape);
    if (!range || !bytes || range->begin > range->end || range->end > best_.data.bytes.size()) return;
    if (range->end - range->begin != *bytes) return;
    const std::uint64_t rows = shape.empty() ? 0 : shape.front();
    if (rows < 2 || *bytes == 0 || *bytes % rows != 0) return;
    const std::uint64_t row_bytes = *bytes / rows;
    reduce(rows, [&](std::size_t begin, std::size_t end) {
      return change([&](SafetensorsDraft& draft) {
        JsonItem& changed = draft.root.items[place];
        const DataRange its = *data_range(changed);
        std::vector<std::uint64_t> fewer = *numbers_in(find(changed.value, "shape"));
        fewer.front() -= end - begin;
        *find(changed.value, "shape") = array_of(fewer);
        replace_data(draft, {its.begin + begin * row_bytes, its.begin + end * row_bytes}, {});
        *find(changed.value, "data_offsets") = array_of({its.begin, its.end - (end - begin) * row_bytes});
      });
    });
  }

  void shrink_name(std::size_t place) {
    std::set<std::string> taken;
    for (const JsonItem& item : best_.root.items) taken.insert(item.key);
    std::string name = "a";
    while (taken.contains(in_json(name))) {
      if (name.back() == 'z') {
        name += 'a';
      } else {
        ++name.back();
      }
    }
    const std::string& old = best_.root.items[place].key;
    if (old.size() <= in_json(name).size()) return;
    change([&](SafetensorsDraft& draft) { draft.root.items[place].key = in_json(name); });
  }

  // Values of the JSON as text, outer ones first, so that what holds many goes at once.
  void shrink_json() {
    for (bool changed = true; changed && !asking_->is_late();) {
      changed = false;
      std::vector<Path> paths;
      Path path;
      add_paths(best_.root, path, paths);
      for (const Path& at : paths) {
        // Places that follow what was left out are others now.
        changed = shrink_items(at);
        if (changed) break;
        shrink_texts(at);
      }
    }
  }

  bool shrink_items(const Path& path) {
    return reduce(value_at(best_.root, path).items.size(), [&](std::size_t begin, std::size_t end) {
      return change([&](SafetensorsDraft& draft) {
        auto& items = value_at(draft.root, path).items;
        const bool had_comma = items.back().has_comma;
        items.erase(items.begin() + static_cast<std::ptrdiff_t>(begin),
                    items.begin() + static_cast<std::ptrdiff_t>(end));
        if (!items.empty()) items.back().has_comma = had_comma;
      });
    });
  }

  void shrink_texts(const Path& path) {
    const auto value = [&path](SafetensorsDraft& draft) -> JsonValue& { return value_at(draft.root, path); };
    shrink_text([&](SafetensorsDraft& draft) -> std::string& { return value(draft).before_end; });
    shrink_scalar([&](SafetensorsDraft& draft) -> std::string& { return value(draft).scalar; });
    for (std::size_t i = 0; i < value(best_).items.size(); ++i) {
      for (const auto text : {&JsonItem::before_key, &JsonItem::before_colon, &JsonItem::before, &JsonItem::after}) {
        shrink_text([&](SafetensorsDraft& draft) -> std::string& { return value(draft).items[i].*text; });
      }
      shrink_text([&](SafetensorsDraft& draft) -> std::string& { return value(draft).items[i].key; });
    }
  }

  template <typename Text>
  void shrink_scalar(const Text& text) {
    std::uint64_t number = 0;
    const std::string& old = text(best_);
    const auto [rest, error] = std::from_chars(old.data(), old.data() + old.size(), number);
    if (!old.empty() && error == std::errc() && rest == old.data() + old.size()) {
      reduce_number(number, [&](std::uint64_t other) {
        return change([&](SafetensorsDraft& draft) { text(draft) = std::to_string(other); });
      });
    }
    shrink_text(text);
  }

  template <typename Text>
  void shrink_text(const Text& text) {
    reduce(text(best_).size(), [&](std::size_t begin, std::size_t end) {
      return change([&](SafetensorsDraft& draft) { text(draft).erase(begin, end - begin); });
    });
  }

  void shrink_rest() {
    shrink_text([](SafetensorsDraft& draft) -> std::string& { return draft.lead; });
    shrink_text([](SafetensorsDraft& draft) -> std::string& { return draft.tail; });
    if (best_.length_difference != 0) {
      reduce_number(best_.length_difference, [&](std::uint64_t difference) {
        return change([&](SafetensorsDraft& draft) { draft.length_difference = difference; });
      });
    }
    reduce(best_.data.bytes.size(), [&](std::size_t begin, std::size_t end) {
      return change([&](SafetensorsDraft& draft) { draft.data = without(draft.data, begin, end); });
    });
    if (std::ranges::any_of(best_.data.bytes, [](std::byte b) { return b != std::byte{0}; })) {
      change([](SafetensorsDraft& draft) { draft.data = slice_of(std::vector<std::byte>(draft.data.bytes.size())); });
    }
  }

  SafetensorsDraft best_;
  std::vector<std::byte> best_file_;
  Asking* asking_;
  std::size_t improvements_ = 0;
};

}  // namespace

std::optional<std::vector<std::byte>> shrink_safetensors(model::Bytes file, const model::Secret&, Asking& asking) {
  std::optional<SafetensorsDraft> draft = take_apart_safetensors(file);
  if (!draft) return std::nullopt;
  return SafetensorsShrinker(std::move(*draft), file, asking).run();
}

}  // namespace tzmark::conformance::mutation
