// A stand-in for libFuzzer's main, so that the targets build, run and stay right with any compiler: runs each file that
// it is given, and mutations of it from a fixed seed. With Clang and TZMARK_SANITIZE=...,fuzzer-no-link libFuzzer takes
// its place.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// A target need not have one.
extern "C" __attribute__((weak)) std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                                                     std::size_t max_size, unsigned seed);

namespace {

// Sanitizers are slow, and CI runs the same without them.
#ifdef TZMARK_CHECK_REQUIRES
constexpr int kMutationsPerFile = 4;
#else
constexpr int kMutationsPerFile = 20;
#endif
constexpr std::size_t kMutatedBytesMax = 1 << 16;

std::mt19937_64& random_numbers() {
  static std::mt19937_64 random(1);
  return random;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size) {
  std::mt19937_64& random = random_numbers();
  if (size == 0) return 0;
  for (std::uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
    data[random() % size] = static_cast<std::uint8_t>(random());
  }
  return random() % 5 == 0 ? random() % size : std::min(size, max_size);
}

namespace {

void run_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::vector<std::uint8_t> original((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  LLVMFuzzerTestOneInput(original.data(), original.size());
  // Large files are for whole runs; mutating them byte by byte tells nothing new.
  if (original.empty() || original.size() > kMutatedBytesMax) return;
  for (int i = 0; i < kMutationsPerFile; ++i) {
    std::vector<std::uint8_t> mutated(2 * original.size());
    std::ranges::copy(original, mutated.begin());
    mutated.resize(LLVMFuzzerCustomMutator != nullptr
                       ? LLVMFuzzerCustomMutator(mutated.data(), original.size(), mutated.size(),
                                                 static_cast<unsigned>(random_numbers()()))
                       : LLVMFuzzerMutate(mutated.data(), original.size(), mutated.size()));
    LLVMFuzzerTestOneInput(mutated.data(), mutated.size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    const std::filesystem::path path(argv[i]);
    if (!std::filesystem::is_directory(path)) {
      run_file(path);
      ++files;
      continue;
    }
    // In an order that is the same everywhere.
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) paths.push_back(entry.path());
    }
    std::ranges::sort(paths);
    for (const auto& file : paths) run_file(file);
    files += static_cast<int>(paths.size());
  }
  std::printf("%d files\n", files);
  return files == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
