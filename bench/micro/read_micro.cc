// Reads from the page cache at offsets that the memory is aligned with, or not.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tzmark/io.h"
#include "tzmark/memory.h"

namespace tzmark::bench {
namespace {

constexpr std::size_t kBlockBytes = 2 << 20;
constexpr std::size_t kBlocks = 32;  // more than the caches of most cores hold

// Reads blocks into touched huge pages, the first of them from the offset in the argument on.
void measure_pread(benchmark::State& state) {
  const std::string name = std::filesystem::temp_directory_path() / ("tzmark-micro-" + std::to_string(::getpid()));
  std::vector<std::byte> content(kBlockBytes * kBlocks + kBlockBytes);
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::byte>(i % 251);
  const auto file = open_file(name, OpenMode::kCreate, "pwrite");
  std::filesystem::remove(name);
  file->write_at(0, std::span(content));
  const auto first = static_cast<std::size_t>(state.range(0));
  const HostMemory memory(kBlockBytes * kBlocks);
  file->read_at(first, memory.bytes());
  if (!std::ranges::equal(memory.bytes(), std::span(content).subspan(first, memory.bytes().size()))) {
    return state.SkipWithError("wrong bytes");
  }
  std::size_t block = 0;
  for ([[maybe_unused]] auto iteration : state) {
    const std::size_t at = block++ % kBlocks * kBlockBytes;
    file->read_at(first + at, memory.bytes().subspan(at, kBlockBytes));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBlockBytes));
}
BENCHMARK(measure_pread)->Name("pread")->Arg(0)->Arg(64)->Arg(8)->Arg(100);

}  // namespace
}  // namespace tzmark::bench
