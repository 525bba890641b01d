// Decoding of file headers, tensor headers and the index, and encoding of tensor headers.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "micro/model_in_memory.h"
#include "tzmark/format.h"
#include "tzmark/reader.h"

namespace tzmark::bench {
namespace {

void decode_file_header_again(benchmark::State& state) {
  const auto bytes = encode_file_header({.data_version = 4, .total_data_bytes = 64, .tensor_count = 7});
  if (decode_file_header(bytes).tensor_count != 7) return state.SkipWithError("wrong file header");
  for ([[maybe_unused]] auto iteration : state) benchmark::DoNotOptimize(decode_file_header(bytes));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes.size()));
}
BENCHMARK(decode_file_header_again)->Name("decode_file_header");

// A header with both hashes, of a tensor with as many dimensions as the argument says.
struct EncodedHeader {
  explicit EncodedHeader(std::int64_t dimensions) {
    fields.name = "model.layers.17.mlp.experts.42.weight";
    fields.dtype = "<f4";
    fields.dimension_count = static_cast<std::uint8_t>(dimensions);
    std::fill_n(fields.dimensions.begin(), fields.dimension_count, 1);
    fields.data_length = 4;
    encode();
  }
  void encode() {
    bytes.clear();
    encode_tensor_header(fields, 0, {.crc32 = true, .sha256 = true}, {}, bytes);
  }

  TensorFields fields;
  std::vector<std::byte> bytes;
};

void measure_decode_tensor_header(benchmark::State& state) {
  const EncodedHeader header(state.range(0));
  TensorHeader decoded;
  decode_tensor_header(header.bytes, 0, {}, decoded);
  if (decoded.name != header.fields.name || !std::ranges::equal(decoded.shape(), header.fields.shape()) ||
      decoded.hashes.size() != 2) {
    return state.SkipWithError("wrong tensor header");
  }
  for ([[maybe_unused]] auto iteration : state) {
    decode_tensor_header(header.bytes, 0, {}, decoded);
    benchmark::DoNotOptimize(decoded);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(header.bytes.size()));
}
BENCHMARK(measure_decode_tensor_header)->Name("decode_tensor_header")->Arg(1)->Arg(4)->Arg(255);

void measure_encode_tensor_header(benchmark::State& state) {
  EncodedHeader header(state.range(0));
  const std::vector<std::byte> first = header.bytes;
  if (first.size() != tensor_header_bytes(header.fields, {.crc32 = true, .sha256 = true})) {
    return state.SkipWithError("wrong length of a tensor header");
  }
  for ([[maybe_unused]] auto iteration : state) {
    header.encode();
    benchmark::DoNotOptimize(header.bytes.data());
  }
  if (header.bytes != first) return state.SkipWithError("tensor headers differ");
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(first.size()));
}
BENCHMARK(measure_encode_tensor_header)->Name("encode_tensor_header")->Arg(1)->Arg(4)->Arg(255);

// Opens a file of as many tensors as the argument says: reads, decodes and checks its index.
void measure_open_index(benchmark::State& state) {
  const ModelInMemory model(
      static_cast<std::size_t>(state.range(0)),
      [](File& file, const TensorTable& table, const MemorySource& source) { write_tensors(file, table, source, {}); });
  std::uint64_t index_bytes = 0;
  {
    const Reader reader(model.open());
    index_bytes = reader.index_length();
    const std::size_t last = model.table().size() - 1;
    if (reader.tensors().size() != last + 1 || reader.tensors()[last].name != model.table()[last].name) {
      return state.SkipWithError("wrong index");
    }
  }
  for ([[maybe_unused]] auto iteration : state) {
    const Reader reader(model.open());
    benchmark::DoNotOptimize(&reader);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(index_bytes));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(measure_open_index)->Name("open_index")->RangeMultiplier(10)->Range(10, 10'000);

}  // namespace
}  // namespace tzmark::bench
