// A stand-in for libFuzzer's main, so that the targets build, run and stay right with any compiler: runs each file that
// it is given, and mutations of it from a fixed seed. With Clang and TZMARK_SANITIZE=...,fuzzer-no-link libFuzzer takes
// its place. TZMARK_FUZZ_S: goes on with mutations until so many seconds are over.
#include <algorithm>
#include <chrono>
#include <csignal>
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
// A target need not have these.
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);
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

using Bytes = std::vector<std::uint8_t>;

Bytes content_of(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// Large files are for whole runs; mutating them byte by byte tells nothing new.
bool is_mutated(const Bytes& content) { return !content.empty() && content.size() <= kMutatedBytesMax; }

// What the target is given at the moment, to be told when it finds something.
const Bytes* current_input = nullptr;

void tell_input(int) {
  for (const std::uint8_t byte : *current_input) {
    std::fprintf(stderr, byte >= ' ' && byte < 0x7f && byte != '\\' ? "%c" : "\\x%02x", byte);
  }
  std::fputs("\nfuzz: the input is above\n", stderr);
}

void run(const Bytes& input) {
  current_input = &input;
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

void run_mutation(const Bytes& original) {
  Bytes mutated(2 * original.size());
  std::ranges::copy(original, mutated.begin());
  mutated.resize(LLVMFuzzerCustomMutator != nullptr
                     ? LLVMFuzzerCustomMutator(mutated.data(), original.size(), mutated.size(),
                                               static_cast<unsigned>(random_numbers()()))
                     : LLVMFuzzerMutate(mutated.data(), original.size(), mutated.size()));
  run(mutated);
}

// The files below the arguments, in an order that is the same everywhere.
std::vector<std::filesystem::path> files_below(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::filesystem::path path(argv[i]);
    const auto first = static_cast<std::ptrdiff_t>(files.size());
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin() + first, files.end());
  }
  return files;
}

// Runs mutations of the files in turn; returns their number.
std::uint64_t mutate_until(std::chrono::steady_clock::time_point end, const std::vector<std::filesystem::path>& files) {
  std::uint64_t mutations = 0;
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (const std::filesystem::path& file : files) {
      if (std::chrono::steady_clock::now() >= end) return mutations;
      const Bytes original = content_of(file);
      if (!is_mutated(original)) continue;
      run_mutation(original);
      ++mutations;
      goes_on = true;
    }
  }
  return mutations;
}

}  // namespace

int main(int argc, char** argv) {
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  std::signal(SIGABRT, tell_input);
  const auto began = std::chrono::steady_clock::now();
  const std::vector<std::filesystem::path> files = files_below(argc, argv);
  for (const std::filesystem::path& file : files) {
    const Bytes original = content_of(file);
    run(original);
    for (int i = 0; is_mutated(original) && i < kMutationsPerFile; ++i) run_mutation(original);
  }
  std::printf("%zu files\n", files.size());
  if (const char* seconds = std::getenv("TZMARK_FUZZ_S")) {
    const std::uint64_t mutations = mutate_until(began + std::chrono::seconds(std::atol(seconds)), files);
    std::printf("%llu more mutations\n", static_cast<unsigned long long>(mutations));
  }
  return files.empty() ? EXIT_FAILURE : EXIT_SUCCESS;
}
