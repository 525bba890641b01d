// Parsing and serializing of tensor names, plain and structured.
#include <benchmark/benchmark.h>

#include "tzmark/path.h"

namespace tzmark::bench {
namespace {

// A path of as many elements as the argument says, names and list positions by turns; one element is a plain name.
Path path_of(std::int64_t elements) {
  Path path;
  for (std::int64_t i = 0; i < elements; ++i) {
    if (i % 2 == 0) {
      path.emplace_back("layers");
    } else {
      path.emplace_back(static_cast<std::uint64_t>(i));
    }
  }
  return path;
}

void measure_parse_name(benchmark::State& state) {
  const Path path = path_of(state.range(0));
  const std::string name = serialize_name(path);
  if (parse_name(name) != path) return state.SkipWithError("wrong path");
  for ([[maybe_unused]] auto iteration : state) benchmark::DoNotOptimize(parse_name(name));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(name.size()));
}
BENCHMARK(measure_parse_name)->Name("parse_name")->RangeMultiplier(4)->Range(1, 64);

void measure_serialize_name(benchmark::State& state) {
  const Path path = path_of(state.range(0));
  const std::string name = serialize_name(path);
  if ((name.front() == kStructuredNameMark) != (path.size() > 1)) return state.SkipWithError("wrong name");
  for ([[maybe_unused]] auto iteration : state) benchmark::DoNotOptimize(serialize_name(path));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(name.size()));
}
BENCHMARK(measure_serialize_name)->Name("serialize_name")->RangeMultiplier(4)->Range(1, 64);

}  // namespace
}  // namespace tzmark::bench
