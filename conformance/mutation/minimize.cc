// Minimizes a file; see minimize.h.
#include "mutation/minimize.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "model/text.h"
#include "mutation/asking.h"
#include "mutation/consistent.h"
#include "mutation/format_mutation.h"
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
    for (int round = 0; round < kRoundsMax && !asking_->is_late(); ++round) {
      const std::size_t before = improvements_;
      erase_ranges([](Draft & draft) -> auto& { return draft.tensors; });
      for (std::size_t i = 0; i < best_.tensors.size(); ++i) shrink_tensor(i);
      shrink_rest();
      if (improvements_ == before) break;
    }
    return std::move(best_file_);
  }

 private:
  bool ask(Draft candidate) {
    std::vector<std::byte> file = put_together(candidate);
    if (!asking_->holds(file)) return false;
    best_ = std::move(candidate);
    best_file_ = std::move(file);
    ++improvements_;
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

  // Tries to leave out elements of a container or characters of a text.
  template <typename Part, typename AfterErasing>
  void erase_ranges(const Part& part, const AfterErasing& after_erasing) {
    reduce(part(best_).size(), [&](std::size_t begin, std::size_t end) {
      return change([&](Draft& draft) {
        auto& elements = part(draft);
        const auto first = elements.begin() + static_cast<std::ptrdiff_t>(begin);
        elements.erase(first, first + static_cast<std::ptrdiff_t>(end - begin));
        after_erasing(draft, begin, end);
      });
    });
  }
  template <typename Part>
  void erase_ranges(const Part& part) {
    erase_ranges(part, [](Draft&, std::size_t, std::size_t) {});
  }

  void shrink_tensor(std::size_t i) {
    shrink_shape(i);
    shrink_rows(i);
    shrink_data(i);
    shrink_names(i);
    shrink_hashes(i);
    shrink_chunks(i);
    shrink_header(i);
    drop_deviations([i](Draft & draft) -> auto& { return draft.tensors[i].deviations; });
  }

  void shrink_shape(std::size_t i) {
    const auto shape = [&]() -> const auto& { return best_.tensors[i].shape; };
    const auto to = [&](const std::vector<std::uint64_t>& other) {
      if (shape() == other) return false;
      return change_tensor(i, [&](DraftTensor& tensor) { reshape(tensor, other, tensor.dtype); });
    };
    if (!to({}) && !to({0})) to({1});
    reduce(shape().size(), [&](std::size_t begin, std::size_t end) {
      std::vector<std::uint64_t> rest = shape();
      const auto first = rest.begin() + static_cast<std::ptrdiff_t>(begin);
      rest.erase(first, first + static_cast<std::ptrdiff_t>(end - begin));
      return to(rest);
    });
    for (std::size_t dim = 0; dim < shape().size(); ++dim) {
      const auto dim_to = [&](std::uint64_t number) {
        std::vector<std::uint64_t> other = shape();
        other[dim] = number;
        return to(other);
      };
      // 1 before 0: a tensor without elements is a special case.
      const std::uint64_t number = shape()[dim];
      if (number <= 1 || !dim_to(1)) reduce_number(number, dim_to);
    }
  }

  // For failures that depend on data after its beginning.
  void shrink_rows(std::size_t i) {
    const DraftTensor& tensor = best_.tensors[i];
    const std::uint64_t rows = tensor.shape.empty() ? 0 : tensor.shape.front();
    if (rows < 2 || tensor.data.bytes.empty() || tensor.data.bytes.size() % rows != 0) return;
    const std::uint64_t row_bytes = tensor.data.bytes.size() / rows;
    reduce(rows, [&](std::size_t begin, std::size_t end) {
      return change_tensor(i, [&](DraftTensor& changed) {
        changed.data = without(changed.data, begin * row_bytes, end * row_bytes);
        changed.shape.front() -= end - begin;
      });
    });
  }

  void shrink_data(std::size_t i) {
    const auto data = [&] { return best_.tensors[i].data.bytes; };
    // Regardless of the shape.
    if (!data().empty()) change_tensor(i, [](DraftTensor& tensor) { tensor.data = tensor.data.first(0); });
    if (!std::ranges::all_of(data(), [](std::byte b) { return b == std::byte{0}; })) {
      change_tensor(i, [&](DraftTensor& tensor) { tensor.data = slice_of(std::vector<std::byte>(data().size())); });
    }
    constexpr std::string_view kShortest = "|u1";
    if (best_.tensors[i].dtype != kShortest) {
      change_tensor(i, [&](DraftTensor& tensor) { reshape(tensor, tensor.shape, std::string(kShortest)); });
    }
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

  void shrink_names(std::size_t i) {
    const std::string name = free_name(i);
    const auto is_long = [&] { return best_.tensors[i].name.size() > name.size(); };
    if (is_long()) change_tensor(i, [&](DraftTensor& tensor) { tensor.name = name; });
    if (is_long()) erase_ranges([i](Draft & draft) -> auto& { return draft.tensors[i].name; });
    if (!best_.tensors[i].header.copies) return;
    if (change_tensor(i, [](DraftTensor& tensor) { tensor.header.copies.reset(); })) return;
    for (const auto copy : {&DraftCopies::name, &DraftCopies::dtype, &DraftCopies::dims}) {
      erase_ranges([&](Draft & draft) -> auto& { return (*draft.tensors[i].header.copies).*copy; });
    }
  }

  void shrink_hashes(std::size_t i) {
    erase_ranges(
        [i](Draft & draft) -> auto& { return draft.tensors[i].header.hashes; },
        [i](Draft& draft, std::size_t begin, std::size_t end) {
          move_deviations(draft.tensors[i], "tensor header: hash ", begin, end);
        });
    if (best_.tensors[i].header.raw_hashes) {
      erase_ranges([i](Draft & draft) -> auto& { return *draft.tensors[i].header.raw_hashes; });
    }
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

  void shrink_chunks(std::size_t i) {
    const auto chunks = [i](Draft & draft) -> auto& { return draft.tensors[i].header.chunks; };
    erase_ranges(chunks, [i](Draft& draft, std::size_t begin, std::size_t end) {
      move_deviations(draft.tensors[i], "tensor header: crypt chunk ", begin, end);
    });
    for (std::size_t chunk = 0; chunk < chunks(best_).size(); ++chunk) {
      if (chunks(best_)[chunk].raw) {
        erase_ranges([&](Draft & draft) -> auto& { return *chunks(draft)[chunk].raw; });
      }
      const std::int64_t extra = chunks(best_)[chunk].extra_macs;
      const auto extra_to = [&](std::int64_t other) {
        return change([&](Draft& draft) { chunks(draft)[chunk].extra_macs = other; });
      };
      if (extra != 0 && !extra_to(0) && extra > 1) extra_to(1);
    }
    if (best_.tensors[i].header.raw_crypt) {
      erase_ranges([i](Draft & draft) -> auto& { return *draft.tensors[i].header.raw_crypt; });
    }
  }

  void shrink_header(std::size_t i) {
    erase_ranges([i](Draft & draft) -> auto& { return draft.tensors[i].header.extra; });
    if (best_.tensors[i].header.raw) {
      shrink_slice([i](Draft & draft) -> auto& { return *draft.tensors[i].header.raw; });
    }
    if (best_.tensors[i].header.module_index != 0) {
      change_tensor(i, [](DraftTensor& tensor) { tensor.header.module_index = 0; });
    }
    for (const auto place : {&DraftTensor::header_place, &DraftTensor::data_place}) {
      if (!(best_.tensors[i].*place)) continue;
      shrink_slice([&](Draft & draft) -> auto& { return (draft.tensors[i].*place)->gap; });
    }
  }

  template <typename Part>
  void shrink_slice(const Part& part) {
    reduce(part(best_).bytes.size(), [&](std::size_t begin, std::size_t end) {
      return change([&](Draft& draft) { part(draft) = without(part(draft), begin, end); });
    });
  }

  // Removes faults other than the one that counts.
  template <typename Part>
  void drop_deviations(const Part& part) {
    std::vector<std::string> names;
    for (const auto& [name, deviation] : part(best_)) names.push_back(name);
    for (const std::string& name : names) {
      change([&](Draft& draft) { part(draft).erase(name); });
    }
  }

  void shrink_rest() {
    drop_deviations([](Draft & draft) -> auto& { return draft.deviations; });
    if (best_.tail.bytes.size() != kTerminatorBytes) {
      change([](Draft& draft) { draft.tail = slice_of(std::vector<std::byte>(kTerminatorBytes)); });
    }
    for (const auto slice :
         {&Draft::metadata_gap, &Draft::index_rest, &Draft::index_gap, &Draft::data_gap, &Draft::tail}) {
      shrink_slice([&](Draft & draft) -> auto& { return draft.*slice; });
    }
    const auto clear = [&](std::string Draft::*part) {
      const std::string zeros((best_.*part).size(), '\0');
      if (best_.*part != zeros) change([&](Draft& draft) { draft.*part = zeros; });
    };
    clear(&Draft::unused);
    if (best_.data_version < 4) clear(&Draft::flags);
  }

  Draft best_;
  std::vector<std::byte> best_file_;
  Asking* asking_;
  std::size_t improvements_ = 0;
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

std::optional<std::vector<std::byte>> shrink_tensorizer(model::Bytes file, const model::Secret& secret,
                                                        Asking& asking) {
  const std::optional<Draft> draft = take_apart(file, secret);
  if (!draft) return std::nullopt;
  return DraftShrinker(*draft, file, asking).run();
}

Minimized minimize(const FileFormat& format, model::Bytes file, const model::Secret& secret,
                   const StillHolds& still_holds, const MinimizeOptions& options) {
  Asking asking(file, still_holds, options);
  Minimized minimized;
  std::optional<std::vector<std::byte>> smaller = mutation_of(format).shrink(file, secret, asking);
  minimized.file = smaller ? std::move(*smaller) : std::vector<std::byte>(file.begin(), file.end());
  if (!smaller || minimized.file.size() <= kShrinkBytesMax) minimized.file = shrink_bytes(minimized.file, asking);
  minimized.candidates = asking.candidates();
  minimized.finished = !asking.is_late();
  return minimized;
}

}  // namespace tzmark::conformance::mutation
