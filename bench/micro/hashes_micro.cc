// Hash kernels over data from a cache line to the size of a piece; verified against zlib and published test vectors.
#include <benchmark/benchmark.h>
#include <zlib.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tzmark/digest.h"

namespace tzmark::bench {
namespace {

std::vector<std::byte> random_data(std::size_t size) {
  std::mt19937_64 random(1);
  std::vector<std::byte> data(size);
  std::ranges::generate(data, [&] { return static_cast<std::byte>(random()); });
  return data;
}

std::uint32_t zlib_crc32(std::span<const std::byte> data) {
  return static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<const unsigned char*>(data.data()), static_cast<unsigned>(data.size())));
}

void measure_crc32(benchmark::State& state) {
  const std::vector<std::byte> data = random_data(static_cast<std::size_t>(state.range(0)));
  if (crc32(0, data) != zlib_crc32(data)) return state.SkipWithError("wrong CRC32");
  for ([[maybe_unused]] auto iteration : state) benchmark::DoNotOptimize(crc32(0, data));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(measure_crc32)->Name("crc32")->RangeMultiplier(32)->Range(64, 2 << 20);

// Both halves have the same length, so the argument is the length of one.
void measure_crc32_combine(benchmark::State& state) {
  const auto half = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> data = random_data(2 * half);
  const std::uint32_t a = crc32(0, std::span(data).first(half));
  const std::uint32_t b = crc32(0, std::span(data).last(half));
  if (crc32_combine(a, b, half) != zlib_crc32(data)) return state.SkipWithError("wrong CRC32");
  for ([[maybe_unused]] auto iteration : state) benchmark::DoNotOptimize(crc32_combine(a, b, half));
}
BENCHMARK(measure_crc32_combine)->Name("crc32_combine")->Arg(64)->Arg(2 << 20);

void measure_sha256(benchmark::State& state) {
  constexpr std::string_view kMessage = "abc";  // FIPS 180-4, example B.1
  const Sha256Digest digest = sha256(std::as_bytes(std::span(kMessage)));
  if (digest[0] != std::byte{0xba} || digest[1] != std::byte{0x78} || digest[31] != std::byte{0xad}) {
    return state.SkipWithError("wrong SHA-256");
  }
  const std::vector<std::byte> data = random_data(static_cast<std::size_t>(state.range(0)));
  Sha256 pieces;
  for (const std::byte& byte : data) pieces.update({&byte, 1});
  if (pieces.finish() != sha256(data)) return state.SkipWithError("wrong SHA-256 of pieces");
  for ([[maybe_unused]] auto iteration : state) benchmark::DoNotOptimize(sha256(data));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(measure_sha256)->Name("sha256")->RangeMultiplier(32)->Range(64, 2 << 20);

// Hashes that many messages of 16 KiB, which all fit into the L2 cache, by a kernel; without one, by the plan in use.
void measure_sha256_side_by_side(benchmark::State& state, std::string_view kernel) {
  constexpr std::size_t kMessageBytes = 16 << 10;
  const auto count = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> data = random_data(count * kMessageBytes);
  std::vector<Sha256> hashes(count);
  std::vector<Sha256Part> parts;
  for (std::size_t i = 0; i < count; ++i) {
    parts.push_back({&hashes[i], std::span(data).subspan(i * kMessageBytes, kMessageBytes)});
  }
  const auto update = [&] { kernel.empty() ? update_side_by_side(parts) : update_side_by_side(parts, kernel); };
  update();
  for (const Sha256Part& part : parts) {
    if (part.hash->finish() != sha256(part.bytes)) return state.SkipWithError("wrong SHA-256");
  }
  for ([[maybe_unused]] auto iteration : state) update();
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * data.size()));
}
[[maybe_unused]] const bool kRegistered = [] {
  const auto add = [](std::string_view kernel, const std::vector<std::int64_t>& counts) {
    const std::string name = "sha256_side_by_side/" + std::string(kernel.empty() ? "fastest" : kernel);
    auto* const added = benchmark::RegisterBenchmark(name.c_str(), measure_sha256_side_by_side, kernel);
    for (const std::int64_t count : counts) added->Arg(count);
  };
  for (const std::string_view kernel : sha256_kernels()) {
    if (kernel == "none") add(kernel, {1});
    if (kernel == "sha-ni" || kernel == "sha2") add(kernel, {2, 3, 4});
    if (kernel == "avx2") add(kernel, {8});
    if (kernel == "avx512") add(kernel, {8, 16});
  }
  add("", {2, 4, 8, 12, 16, 24, 32});
  return true;
}();

}  // namespace
}  // namespace tzmark::bench
