// Mistakes with the offsets and the data of a safetensors file; see safetensors_bugs.h.
#include <algorithm>
#include <tuple>
#include <utility>

#include "planted_bugs/safetensors_bugs.h"

namespace tzmark::conformance::planted {
namespace {

using mutation::DataRange;
using mutation::JsonItem;
using mutation::SafetensorsDraft;
using Ranges = std::vector<DataRange>;

// A file of lies may claim more than there is memory.
constexpr std::uint64_t kDataBytesMax = 1 << 20;

bool is_empty(DataRange range) { return range.begin == range.end; }

Ranges in_order(Ranges ranges) {
  std::ranges::sort(ranges, {}, [](DataRange range) { return std::tuple(range.begin, range.end); });
  return ranges;
}

// How a reader goes over the sorted ranges of a file.
struct Walk {
  // Whether it takes a tensor where the one before ended at `at`.
  bool (*takes)(DataRange range, std::uint64_t at, std::size_t number) = [](DataRange range, std::uint64_t at,
                                                                            std::size_t) { return range.begin == at; };
  bool (*ends)(std::uint64_t at, std::uint64_t data_bytes) = [](std::uint64_t at, std::uint64_t data_bytes) {
    return at == data_bytes;
  };
  bool skips_empty = false;
  bool takes_end_first = false;
  bool in_header_order = false;
};

bool passes(const Walk& walk, const Ranges& ranges, std::uint64_t data_bytes) {
  std::uint64_t at = 0;
  std::size_t number = 0;
  for (const DataRange range : walk.in_header_order ? ranges : in_order(ranges)) {
    if (walk.skips_empty && is_empty(range)) continue;
    if (!walk.takes(range, at, number++) || (range.end < range.begin && !walk.takes_end_first)) return false;
    at = std::max(range.begin, range.end);
  }
  return walk.ends(at, data_bytes);
}

bool is_right(const Ranges& ranges, std::uint64_t data_bytes) { return passes(Walk(), ranges, data_bytes); }

// Puts the tensors one after another, with the bytes that there are for them.
void close_up(SafetensorsDraft& draft, const std::vector<std::size_t>& places, const Ranges& ranges) {
  std::vector<std::size_t> order(places.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return std::tuple(ranges[i].begin, ranges[i].end); });
  const model::Bytes all = draft.data.bytes;
  std::vector<std::byte> data;
  for (const std::size_t i : order) {
    const std::uint64_t size = ranges[i].end - ranges[i].begin;
    const std::uint64_t begin = data.size();
    if (size > kDataBytesMax) continue;
    for (std::uint64_t j = 0; j < size; ++j) {
      const std::uint64_t from = ranges[i].begin + j;
      data.push_back(from < all.size() ? all[from] : std::byte{0});
    }
    *find(draft.root.items[places[i]].value, "data_offsets") = mutation::array_of({begin, begin + size});
  }
  draft.data = mutation::slice_of(std::move(data));
}

// Another test of all ranges.
void add_check(SafetensorsBugs& bugs, std::string rule, std::string name,
               std::function<bool(const Ranges& of_header, std::uint64_t data_bytes)> is_taken) {
  bugs.push_back({std::move(rule), std::move(name), [is_taken = std::move(is_taken)](SafetensorsDraft& draft) {
                    const std::vector<std::size_t> places = tensor_places(draft);
                    Ranges ranges;
                    for (const std::size_t place : places) {
                      const auto range = data_range(draft.root.items[place]);
                      if (!range) return true;
                      ranges.push_back(*range);
                    }
                    const std::uint64_t data_bytes = draft.data.bytes.size();
                    const bool right = is_right(ranges, data_bytes);
                    if (is_taken(ranges, data_bytes)) {
                      if (!right) close_up(draft, places, ranges);
                      return true;
                    }
                    return !right;
                  }});
}

void add_walk(SafetensorsBugs& bugs, std::string rule, std::string name, const Walk& walk) {
  add_check(bugs, std::move(rule), std::move(name),
            [walk](const Ranges& ranges, std::uint64_t bytes) { return passes(walk, ranges, bytes); });
}

void add_holes(SafetensorsBugs& bugs) {
  using Range = DataRange;
  add_walk(bugs, "ST-014", "takes holes",
           {.takes = [](Range range, std::uint64_t at, std::size_t) { return range.begin >= at; }});
  add_walk(
      bugs, "ST-014", "takes a hole before the first tensor",
      {.takes = [](Range range, std::uint64_t at, std::size_t number) { return range.begin == at || number == 0; }});
  add_walk(bugs, "ST-014", "takes a hole after the first tensor",
           {.takes = [](Range range, std::uint64_t at, std::size_t number) {
             return range.begin == at || (range.begin > at && number == 1);
           }});
  add_walk(bugs, "ST-014", "takes a hole after the second tensor",
           {.takes = [](Range range, std::uint64_t at, std::size_t number) {
             return range.begin == at || (range.begin > at && number > 1);
           }});
  add_walk(bugs, "ST-014", "takes a hole of fewer than 8 bytes",
           {.takes = [](Range range, std::uint64_t at, std::size_t) { return range.begin - at < 8; }});
  add_walk(bugs, "ST-014", "takes a hole up to a multiple of 8",
           {.takes = [](Range range, std::uint64_t at, std::size_t) {
             return range.begin == at || range.begin == (at + 7) / 8 * 8;
           }});
  add_walk(bugs, "ST-014", "takes a hole up to a multiple of 64",
           {.takes = [](Range range, std::uint64_t at, std::size_t) {
             return range.begin == at || range.begin == (at + 63) / 64 * 64;
           }});
  add_walk(bugs, "ST-014", "takes a hole before a tensor without data",
           {.takes = [](Range range, std::uint64_t at, std::size_t) {
             return range.begin == at || (range.begin > at && range.begin == range.end);
           }});
  add_walk(bugs, "ST-014", "takes overlaps",
           {.takes = [](Range range, std::uint64_t at, std::size_t) { return range.begin <= at; }});
  add_walk(bugs, "ST-014", "takes an overlap of one byte", {.takes = [](Range range, std::uint64_t at, std::size_t) {
             return range.begin == at || range.begin + 1 == at;
           }});
  add_walk(bugs, "ST-014", "takes a tensor that ends before it begins", {.takes_end_first = true});
  add_walk(bugs, "ST-014", "compares beginnings in 32 bits", {.takes = [](Range range, std::uint64_t at, std::size_t) {
             return ((range.begin ^ at) & 0xffffffff) == 0;
           }});
  add_walk(bugs, "ST-014", "compares beginnings in 16 bits",
           {.takes = [](Range range, std::uint64_t at, std::size_t) { return ((range.begin ^ at) & 0xffff) == 0; }});
  add_walk(bugs, "ST-014", "takes a tensor without data anywhere", {.skips_empty = true});
  add_walk(bugs, "ST-014", "wants tensors in the order of their data", {.in_header_order = true});
  add_check(bugs, "ST-014", "does not compare the ranges of tensors", [](const Ranges& ranges, std::uint64_t bytes) {
    std::uint64_t end = 0;
    for (const Range range : ranges) {
      if (range.end < range.begin) return false;
      end = std::max(end, range.end);
    }
    return end == bytes;
  });
  add_check(bugs, "ST-014", "only adds the sizes of tensors", [](const Ranges& ranges, std::uint64_t bytes) {
    std::uint64_t sum = 0;
    for (const Range range : ranges) sum += range.end - range.begin;
    return sum == bytes;
  });
  add_check(bugs, "ST-014", "takes two tensors of the same data", [](Ranges ranges, std::uint64_t bytes) {
    ranges = in_order(std::move(ranges));
    const auto same =
        std::ranges::unique(ranges, [](Range a, Range b) { return a.begin == b.begin && a.end == b.end; });
    ranges.erase(same.begin(), same.end());
    return is_right(ranges, bytes);
  });
  add_check(bugs, "ST-014", "takes a tensor within another one", [](Ranges ranges, std::uint64_t bytes) {
    const Ranges all = ranges;
    std::erase_if(ranges, [&](Range range) {
      return range.begin <= range.end && std::ranges::any_of(all, [&](Range other) {
               const bool is_same = other.begin == range.begin && other.end == range.end;
               return !is_same && other.begin <= range.begin && range.end <= other.end;
             });
    });
    return is_right(ranges, bytes);
  });
  add_check(bugs, "ST-014", "compares only tensors after one another in the header",
            [](const Ranges& ranges, std::uint64_t bytes) {
              if (is_right(ranges, bytes)) return true;
              for (std::size_t i = 1; i < ranges.size(); ++i) {
                if (ranges[i].begin < ranges[i - 1].end && ranges[i - 1].begin < ranges[i].end) return false;
              }
              std::uint64_t end = 0;
              for (const Range range : ranges) {
                if (range.end < range.begin) return false;
                end = std::max(end, range.end);
              }
              return end == bytes;
            });
}

void add_data_ends(SafetensorsBugs& bugs) {
  using Range = DataRange;
  const auto ends = [&bugs](std::string name, bool (*test)(std::uint64_t, std::uint64_t)) {
    add_walk(bugs, "ST-015", std::move(name), {.ends = test});
  };
  ends("takes bytes behind the data", [](std::uint64_t at, std::uint64_t bytes) { return bytes >= at; });
  ends("takes one byte behind the data",
       [](std::uint64_t at, std::uint64_t bytes) { return bytes == at || bytes == at + 1; });
  ends("takes fewer than 8 bytes behind the data",
       [](std::uint64_t at, std::uint64_t bytes) { return bytes >= at && bytes - at < 8; });
  ends("takes 8 bytes and more behind the data",
       [](std::uint64_t at, std::uint64_t bytes) { return bytes == at || (bytes > at && bytes - at >= 8); });
  ends("takes data up to a multiple of 8",
       [](std::uint64_t at, std::uint64_t bytes) { return bytes == at || bytes == (at + 7) / 8 * 8; });
  ends("takes data of a file without tensors",
       [](std::uint64_t at, std::uint64_t bytes) { return bytes == at || at == 0; });
  ends("fills up data that is missing with zeros", [](std::uint64_t at, std::uint64_t bytes) { return bytes <= at; });
  ends("takes data that lacks one byte",
       [](std::uint64_t at, std::uint64_t bytes) { return bytes == at || bytes + 1 == at; });
  ends("takes a file without any of its data",
       [](std::uint64_t at, std::uint64_t bytes) { return bytes == at || bytes == 0; });
  ends("does not compare the end of the data", [](std::uint64_t, std::uint64_t) { return true; });
  ends("compares the end of the data in 32 bits",
       [](std::uint64_t at, std::uint64_t bytes) { return ((at ^ bytes) & 0xffffffff) == 0; });
  add_check(bugs, "ST-014", "refuses a tensor without data", [](const Ranges& ranges, std::uint64_t bytes) {
    return is_right(ranges, bytes) && std::ranges::none_of(ranges, is_empty);
  });
  add_check(bugs, "ST-014", "refuses a tensor without data that is not the first",
            [](const Ranges& ranges, std::uint64_t bytes) {
              return is_right(ranges, bytes) &&
                     std::ranges::none_of(ranges, [](Range range) { return is_empty(range) && range.begin != 0; });
            });
  add_check(bugs, "ST-014", "refuses a tensor without data that is listed after its neighbour",
            [](Ranges ranges, std::uint64_t bytes) {
              if (!is_right(ranges, bytes)) return false;
              std::ranges::stable_sort(ranges, {}, &Range::begin);
              std::uint64_t at = 0;
              return std::ranges::all_of(ranges,
                                         [&](Range range) { return std::exchange(at, range.end) == range.begin; });
            });
  add_check(bugs, "ST-014", "refuses two tensors without data at one place",
            [](const Ranges& ranges, std::uint64_t bytes) {
              const Ranges sorted = in_order(ranges);
              return is_right(ranges, bytes) && std::ranges::adjacent_find(sorted, [](Range a, Range b) {
                                                  return a.begin == b.begin && a.end == b.end;
                                                }) == sorted.end();
            });
  for (const std::uint64_t alignment : {2, 4, 8, 64}) {
    add_check(bugs, "ST-014", "refuses data that does not begin at a multiple of " + std::to_string(alignment),
              [alignment](const Ranges& ranges, std::uint64_t bytes) {
                return is_right(ranges, bytes) &&
                       std::ranges::all_of(ranges, [&](Range range) { return range.begin % alignment == 0; });
              });
  }
}

// Other bytes for each tensor of a file that is right: of which byte of the whole file each byte is.
void add_read(SafetensorsBugs& bugs, std::string name,
              std::function<std::uint64_t(std::uint64_t data_begin, DataRange range, std::uint64_t offset)> from) {
  bugs.push_back({"ST-014", std::move(name), [from = std::move(from)](SafetensorsDraft& draft) {
                    const std::vector<std::byte> file = write(draft);
                    const std::uint64_t data_begin = file.size() - draft.data.bytes.size();
                    std::vector<std::byte> data(draft.data.bytes.begin(), draft.data.bytes.end());
                    for (const std::size_t place : tensor_places(draft)) {
                      const auto range = data_range(draft.root.items[place]);
                      if (!range || range->end > data.size()) return true;
                      for (std::uint64_t at = range->begin; at < range->end; ++at) {
                        const std::uint64_t source = from(data_begin, *range, at - range->begin);
                        data[at] = source < file.size() ? file[source] : std::byte{0};
                      }
                    }
                    draft.data = mutation::slice_of(std::move(data));
                    return true;
                  }});
}

void add_reads(SafetensorsBugs& bugs) {
  using Range = DataRange;
  add_read(bugs, "counts data_offsets from the begin of the file",
           [](std::uint64_t, Range range, std::uint64_t at) { return range.begin + at; });
  add_read(bugs, "counts data_offsets from the begin of the header",
           [](std::uint64_t, Range range, std::uint64_t at) { return 8 + range.begin + at; });
  add_read(bugs, "takes the data to begin at a multiple of 8",
           [](std::uint64_t data, Range range, std::uint64_t at) { return (data + 7) / 8 * 8 + range.begin + at; });
  add_read(bugs, "takes the data to begin at a multiple of 64",
           [](std::uint64_t data, Range range, std::uint64_t at) { return (data + 63) / 64 * 64 + range.begin + at; });
  add_read(bugs, "reads a tensor from a multiple of 2",
           [](std::uint64_t data, Range range, std::uint64_t at) { return data + range.begin / 2 * 2 + at; });
  add_read(bugs, "reads a tensor from a multiple of 4",
           [](std::uint64_t data, Range range, std::uint64_t at) { return data + range.begin / 4 * 4 + at; });
  add_read(bugs, "reads every tensor from the begin of the data",
           [](std::uint64_t data, Range, std::uint64_t at) { return data + at; });
  add_read(bugs, "reads the bytes of a tensor backwards",
           [](std::uint64_t data, Range range, std::uint64_t at) { return data + range.end - 1 - at; });
  add_read(bugs, "takes the header to be one byte shorter",
           [](std::uint64_t data, Range range, std::uint64_t at) { return data - 1 + range.begin + at; });
}

}  // namespace

SafetensorsBugs bugs_of_data() {
  SafetensorsBugs bugs;
  add_holes(bugs);
  add_data_ends(bugs);
  add_reads(bugs);
  return bugs;
}

}  // namespace tzmark::conformance::planted
