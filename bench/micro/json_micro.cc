// JSON: the header of a safetensors file, which is parsed and checked when it is opened, and the output of `tzmark
// dump`.
#include <benchmark/benchmark.h>

#include "micro/model_in_memory.h"
#include "tzmark/canonical.h"
#include "tzmark/reader.h"
#include "tzmark/safetensors.h"

namespace tzmark::bench {
namespace {

void measure_open_safetensors(benchmark::State& state) {
  const ModelInMemory model(static_cast<std::size_t>(state.range(0)),
                            [](File& file, const TensorTable& table, const MemorySource& source) {
                              write_safetensors(file, table, source, {});
                            });
  std::uint64_t header_bytes = 0;
  {
    const SafetensorsReader reader(model.open());
    header_bytes = reader.file_bytes() - reader.data_bytes();
    if (reader.size() != model.table().size() || !reader.find(tensor_name(reader.size() - 1))) {
      return state.SkipWithError("wrong header");
    }
  }
  for ([[maybe_unused]] auto iteration : state) {
    const SafetensorsReader reader(model.open());
    benchmark::DoNotOptimize(&reader);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(header_bytes));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(measure_open_safetensors)->Name("open_safetensors")->RangeMultiplier(10)->Range(10, 10'000);

void measure_canonical_json(benchmark::State& state) {
  const ModelInMemory model(
      static_cast<std::size_t>(state.range(0)),
      [](File& file, const TensorTable& table, const MemorySource& source) { write_tensors(file, table, source, {}); });
  const Reader reader(model.open());
  const std::string text = canonical_json(reader);
  if (text.find(tensor_name(reader.tensors().size() - 1)) == std::string::npos) {
    return state.SkipWithError("wrong JSON");
  }
  for ([[maybe_unused]] auto iteration : state) benchmark::DoNotOptimize(canonical_json(reader));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(measure_canonical_json)->Name("canonical_json")->RangeMultiplier(10)->Range(10, 10'000);

}  // namespace
}  // namespace tzmark::bench
