// Minimizes a file; see minimize.h.
#include "mutation/minimize.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>

#include "model/text.h"
#include "mutation/consistent.h"
#include "mutation/reduce.h"
#include "mutation/reshape.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr std::size_t kNumberMaxBytes = 8;
constexpr std::uint64_t kTerminatorBytes = 8;
// In a larger file, removing single bytes would take too long.
constexpr std::size_t kShrinkBytesMax = 64 << 10;
// Rounds of all steps, after which the rest is not worth the time.
constexpr int kRoundsMax = 8;

using Clock = std::chrono::steady_clock;

// Tries candidates, each at most once.
class Asking {
 public:
  Asking(model::Bytes file, const StillHolds& still_holds, const MinimizeOptions& options)
      : still_holds_(&still_holds), end_(Clock::now() + options.elapsed_max) {
    asked_.insert(hash(file));
  }

  bool holds(model::Bytes candidate) {
    if (is_late() || !asked_.insert(hash(candidate)).second) return false;
    ++candidates_;
    return (*still_holds_)(candidate);
  }

  bool is_late() const { return Clock::now() >= end_; }
  std::size_t candidates() const { return candidates_; }

 private:
  static std::size_t hash(model::Bytes bytes) { return std::hash<std::string_view>()(model::text_of(bytes)); }

  const StillHolds* still_holds_;
  Clock::time_point end_;
  std::unordered_set<std::size_t> asked_;
  std::size_t candidates_ = 0;
};

Slice without(const Slice& slice, std::size_t begin, std::size_t end) {
  if (end == slice.bytes.size()) return slice.first(begin);
  if (begin == 0) return slice.from(end);
  std::vector<std::byte> rest(slice.bytes.begin(), slice.bytes.begin() + static_cast<std::ptrdiff_t>(begin));
  rest.insert(rest.end(), slice.bytes.begin() + static_cast<std::ptrdiff_t>(end), slice.bytes.end());
  return slice_of(std::move(rest));
}

bool has_structure_of_its_own(const DraftTensor& tensor) {
  return !tensor.deviations.empty() || !tensor.header_place || !tensor.data_place || tensor.header.raw ||
         tensor.header.copies || tensor.header.raw_hashes || tensor.header.raw_crypt || !tensor.header.extra.empty();
}

// Switches deviations between keeping their difference and keeping their value.
bool turn_deviations(Deviations& deviations) {
  bool turned = false;
  for (auto& [name, deviation] : deviations) {
    if (deviation.bytes.size() > kNumberMaxBytes || deviation.difference.empty()) continue;
    deviation.relative = !deviation.relative;
    turned = true;
  }
  return turned;
}

class DraftShrinker {
 public:
  DraftShrinker(Draft draft, model::Bytes file, Asking& asking)
      : best_(std::move(draft)), best_file_(file.begin(), file.end()), asking_(&asking) {}

  std::vector<std::byte> run() {
    shrink_all_data();
    bool changed = true;
    for (int round = 0; round < kRoundsMax && changed && !asking_->is_late(); ++round) {
      changed = shrink_tensors();
      for (std::size_t i = 0; i < best_.tensors.size(); ++i) changed = shrink_tensor(i) || changed;
      changed = shrink_rest() || changed;
    }
    return std::move(best_file_);
  }

 private:
  bool ask(Draft candidate) {
    std::vector<std::byte> file = put_together(candidate);
    if (!asking_->holds(file)) return false;
    best_ = std::move(candidate);
    best_file_ = std::move(file);
    return true;
  }

  // Tries one change while deviations keep their difference, and then while they keep their value.
  template <typename FileChange>
  bool change(const FileChange& change) {
    if (asking_->is_late()) return false;
    Draft candidate = best_;
    change(candidate);
    if (ask(candidate)) return true;
    bool turned = turn_deviations(candidate.deviations);
    for (DraftTensor& tensor : candidate.tensors) turned = turn_deviations(tensor.deviations) || turned;
    return turned && ask(std::move(candidate));
  }

  template <typename FileChange>
  bool change_tensor(std::size_t i, const FileChange& edit) {
    return change([&](Draft& draft) { edit(draft.tensors[i]); });
  }

  // All at once, since each question about a large file takes long.
  void shrink_all_data() {
    const auto keep_special = [](Draft& draft) {
      if (draft.tensors.size() < 2) return;
      std::erase_if(draft.tensors, [](const DraftTensor& tensor) { return !has_structure_of_its_own(tensor); });
    };
    const auto shrink = [](Draft& draft, bool special_too) {
      for (DraftTensor& tensor : draft.tensors) {
        if (special_too || !has_structure_of_its_own(tensor)) reshape_to_least(tensor);
      }
    };
    const bool smallest = change([&](Draft& draft) {
      keep_special(draft);
      shrink(draft, true);
    });
    if (smallest || change([&](Draft& draft) { shrink(draft, true); })) return;
    change(keep_special);
    change([&](Draft& draft) { shrink(draft, false); });
  }

  bool shrink_tensors() {
    return reduce(best_.tensors.size(), [&](std::size_t begin, std::size_t end) {
      return change([&](Draft& draft) {
        draft.tensors.erase(draft.tensors.begin() + static_cast<std::ptrdiff_t>(begin),
                            draft.tensors.begin() + static_cast<std::ptrdiff_t>(end));
      });
    });
  }

  bool shrink_tensor(std::size_t i) {
    bool changed = false;
    for (const auto step : {&DraftShrinker::shrink_shape, &DraftShrinker::shrink_rows, &DraftShrinker::shrink_data,
                            &DraftShrinker::shrink_names, &DraftShrinker::shrink_hashes, &DraftShrinker::shrink_chunks,
                            &DraftShrinker::shrink_header, &DraftShrinker::drop_deviations}) {
      changed = (this->*step)(i) || changed;
    }
    return changed;
  }

  bool shrink_shape(std::size_t i) {
    bool changed = false;
    const auto to = [&](const std::vector<std::uint64_t>& shape) {
      if (best_.tensors[i].shape == shape) return false;
      return change_tensor(i, [&](DraftTensor& tensor) { reshape(tensor, shape, tensor.dtype); });
    };
    if (to({}) || to({0}) || to({1})) changed = true;
    changed = reduce(best_.tensors[i].shape.size(),
                     [&](std::size_t begin, std::size_t end) {
                       std::vector<std::uint64_t> shape = best_.tensors[i].shape;
                       shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(begin),
                                   shape.begin() + static_cast<std::ptrdiff_t>(end));
                       return to(shape);
                     }) ||
              changed;
    for (std::size_t dim = 0; dim < best_.tensors[i].shape.size(); ++dim) {
      const auto dim_to = [&](std::uint64_t number) {
        std::vector<std::uint64_t> shape = best_.tensors[i].shape;
        shape[dim] = number;
        return to(shape);
      };
      // 1 before 0: a tensor without elements is a special case.
      const std::uint64_t number = best_.tensors[i].shape[dim];
      if (number > 1 && dim_to(1)) {
        changed = true;
        continue;
      }
      changed = reduce_number(number, dim_to) || changed;
    }
    return changed;
  }

  // For failures that depend on data after its beginning.
  bool shrink_rows(std::size_t i) {
    const DraftTensor& tensor = best_.tensors[i];
    const std::uint64_t rows = tensor.shape.empty() ? 0 : tensor.shape.front();
    if (rows < 2 || tensor.data.bytes.empty() || tensor.data.bytes.size() % rows != 0) return false;
    const std::uint64_t row_bytes = tensor.data.bytes.size() / rows;
    return reduce(rows, [&](std::size_t begin, std::size_t end) {
      return change_tensor(i, [&](DraftTensor& changed) {
        changed.data = without(changed.data, begin * row_bytes, end * row_bytes);
        changed.shape.front() -= end - begin;
      });
    });
  }

  bool shrink_data(std::size_t i) {
    const auto data = [&]() -> const Slice& { return best_.tensors[i].data; };
    bool changed = false;
    // Regardless of the shape.
    if (!data().bytes.empty()) {
      changed = change_tensor(i, [](DraftTensor& tensor) { tensor.data = tensor.data.first(0); });
    }
    const bool zeros =
        std::all_of(data().bytes.begin(), data().bytes.end(), [](std::byte b) { return b == std::byte{0}; });
    if (!zeros) {
      changed = change_tensor(i,
                              [](DraftTensor& tensor) {
                                tensor.data = slice_of(std::vector<std::byte>(tensor.data.bytes.size()));
                              }) ||
                changed;
    }
    constexpr std::string_view kShortest = "|u1";
    if (best_.tensors[i].dtype != kShortest) {
      changed = change_tensor(i, [&](DraftTensor& tensor) { reshape(tensor, tensor.shape, std::string(kShortest)); }) ||
                changed;
    }
    return changed;
  }

  // The shortest unused name.
  std::string free_name(std::size_t i) const {
    std::set<std::string> taken;
    for (std::size_t other = 0; other < best_.tensors.size(); ++other) {
      if (other != i) taken.insert(best_.tensors[other].name);
    }
    std::string name = "a";
    while (taken.contains(name)) {
      if (name.back() == 'z') {
        name += 'a';
      } else {
        ++name.back();
      }
    }
    return name;
  }

  template <typename Text>
  bool shrink_text(std::size_t i, const Text& text) {
    return reduce(text(best_.tensors[i]).size(), [&](std::size_t begin, std::size_t end) {
      return change_tensor(i, [&](DraftTensor& tensor) { text(tensor).erase(begin, end - begin); });
    });
  }

  bool shrink_names(std::size_t i) {
    bool changed = false;
    const std::string name = free_name(i);
    if (best_.tensors[i].name.size() > name.size()) {
      changed = change_tensor(i, [&](DraftTensor& tensor) { tensor.name = name; });
    }
    if (best_.tensors[i].name.size() > name.size()) {
      changed = shrink_text(i, [](DraftTensor& tensor) -> std::string& { return tensor.name; }) || changed;
    }
    if (!best_.tensors[i].header.copies) return changed;
    if (change_tensor(i, [](DraftTensor& tensor) { tensor.header.copies.reset(); })) return true;
    for (const auto copy : {&DraftCopies::name, &DraftCopies::dtype, &DraftCopies::dims}) {
      changed =
          shrink_text(i, [&](DraftTensor& tensor) -> std::string& { return (*tensor.header.copies).*copy; }) || changed;
    }
    return changed;
  }

  bool shrink_hashes(std::size_t i) {
    bool changed = reduce(best_.tensors[i].header.hashes.size(), [&](std::size_t begin, std::size_t end) {
      return change_tensor(i, [&](DraftTensor& tensor) {
        auto& hashes = tensor.header.hashes;
        hashes.erase(hashes.begin() + static_cast<std::ptrdiff_t>(begin),
                     hashes.begin() + static_cast<std::ptrdiff_t>(end));
        move_deviations(tensor, "tensor header: hash ", begin, end);
      });
    });
    if (best_.tensors[i].header.raw_hashes) {
      changed =
          shrink_text(i, [](DraftTensor& tensor) -> std::string& { return *tensor.header.raw_hashes; }) || changed;
    }
    return changed;
  }

  // Renumbers the deviations of parts after some were removed.
  static void move_deviations(DraftTensor& tensor, std::string_view prefix, std::size_t begin, std::size_t end) {
    Deviations moved;
    for (auto& [name, deviation] : tensor.deviations) {
      std::string to = name;
      if (name.starts_with(prefix)) {
        const std::string_view rest = std::string_view(name).substr(prefix.size());
        const std::size_t number = std::stoul(std::string(rest));
        if (number >= begin && number < end) continue;
        const std::size_t now = number < begin ? number : number - (end - begin);
        to = std::string(prefix) + std::to_string(now) + std::string(rest.substr(rest.find(':')));
      }
      moved[to] = deviation;
    }
    tensor.deviations = std::move(moved);
  }

  bool shrink_chunks(std::size_t i) {
    bool changed = reduce(best_.tensors[i].header.chunks.size(), [&](std::size_t begin, std::size_t end) {
      return change_tensor(i, [&](DraftTensor& tensor) {
        auto& chunks = tensor.header.chunks;
        chunks.erase(chunks.begin() + static_cast<std::ptrdiff_t>(begin),
                     chunks.begin() + static_cast<std::ptrdiff_t>(end));
        move_deviations(tensor, "tensor header: crypt chunk ", begin, end);
      });
    });
    for (std::size_t chunk = 0; chunk < best_.tensors[i].header.chunks.size(); ++chunk) {
      if (best_.tensors[i].header.chunks[chunk].raw) {
        changed =
            shrink_text(i, [&](DraftTensor& tensor) -> std::string& { return *tensor.header.chunks[chunk].raw; }) ||
            changed;
      }
      if (best_.tensors[i].header.chunks[chunk].extra_macs == 0) continue;
      const auto extra_to = [&](std::int64_t extra) {
        return change_tensor(i, [&](DraftTensor& tensor) { tensor.header.chunks[chunk].extra_macs = extra; });
      };
      changed = extra_to(0) || (best_.tensors[i].header.chunks[chunk].extra_macs > 1 && extra_to(1)) || changed;
    }
    if (best_.tensors[i].header.raw_crypt) {
      changed = shrink_text(i, [](DraftTensor& tensor) -> std::string& { return *tensor.header.raw_crypt; }) || changed;
    }
    return changed;
  }

  bool shrink_header(std::size_t i) {
    bool changed = shrink_text(i, [](DraftTensor& tensor) -> std::string& { return tensor.header.extra; });
    if (best_.tensors[i].header.raw) {
      changed = shrink_slice([i](Draft& draft) -> Slice& { return *draft.tensors[i].header.raw; }) || changed;
    }
    if (best_.tensors[i].header.module_index != 0) {
      changed = change_tensor(i, [](DraftTensor& tensor) { tensor.header.module_index = 0; }) || changed;
    }
    for (const auto place : {&DraftTensor::header_place, &DraftTensor::data_place}) {
      if (!(best_.tensors[i].*place)) continue;
      changed = shrink_slice([&](Draft& draft) -> Slice& { return (draft.tensors[i].*place)->gap; }) || changed;
    }
    return changed;
  }

  template <typename FilePart>
  bool shrink_slice(const FilePart& part) {
    return reduce(part(best_).bytes.size(), [&](std::size_t begin, std::size_t end) {
      return change([&](Draft& draft) { part(draft) = without(part(draft), begin, end); });
    });
  }

  // Removes faults other than the one that counts.
  bool drop_deviations(std::size_t i) {
    return drop([i](Draft& draft) -> Deviations& { return draft.tensors[i].deviations; });
  }

  template <typename FilePart>
  bool drop(const FilePart& part) {
    bool changed = false;
    std::vector<std::string> names;
    for (const auto& [name, deviation] : part(best_)) names.push_back(name);
    for (const std::string& name : names) {
      changed = change([&](Draft& draft) { part(draft).erase(name); }) || changed;
    }
    return changed;
  }

  bool shrink_rest() {
    bool changed = drop([](Draft& draft) -> Deviations& { return draft.deviations; });
    if (best_.tail.bytes.size() != kTerminatorBytes) {
      changed =
          change([](Draft& draft) { draft.tail = slice_of(std::vector<std::byte>(kTerminatorBytes)); }) || changed;
    }
    for (const auto slice :
         {&Draft::metadata_gap, &Draft::index_rest, &Draft::index_gap, &Draft::data_gap, &Draft::tail}) {
      changed = shrink_slice([&](Draft& draft) -> Slice& { return draft.*slice; }) || changed;
    }
    const auto clear = [&](std::string Draft::*part) {
      const std::string zeros((best_.*part).size(), '\0');
      return best_.*part != zeros && change([&](Draft& draft) { draft.*part = zeros; });
    };
    changed = clear(&Draft::unused) || changed;
    return (best_.data_version < 4 && clear(&Draft::flags)) || changed;
  }

  Draft best_;
  std::vector<std::byte> best_file_;
  Asking* asking_;
};

std::vector<std::byte> shrink_bytes(model::Bytes file, Asking& asking) {
  Slice best{nullptr, file};
  bool changed = true;
  while (changed && !asking.is_late()) {
    changed = reduce(best.bytes.size(), [&](std::size_t begin, std::size_t end) {
      Slice candidate = without(best, begin, end);
      if (!asking.holds(candidate.bytes)) return false;
      best = std::move(candidate);
      return true;
    });
  }
  return {best.bytes.begin(), best.bytes.end()};
}

}  // namespace

Minimized minimize(model::Bytes file, const model::Secret& secret, const StillHolds& still_holds,
                   const MinimizeOptions& options) {
  Asking asking(file, still_holds, options);
  Minimized minimized;
  const std::optional<Draft> draft = take_apart(file, secret);
  minimized.file = draft ? DraftShrinker(*draft, file, asking).run() : std::vector<std::byte>(file.begin(), file.end());
  if (!draft || minimized.file.size() <= kShrinkBytesMax) minimized.file = shrink_bytes(minimized.file, asking);
  minimized.candidates = asking.candidates();
  minimized.finished = !asking.is_late();
  return minimized;
}

}  // namespace tzmark::conformance::mutation
