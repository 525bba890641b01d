// A stand-in for libFuzzer's main, so that the targets build, run and stay right with any compiler: runs each file that
// it is given, and mutations of it from a fixed seed. With clang and TZMARK_SANITIZE=fuzzer libFuzzer takes its place.
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

namespace {

constexpr int kMutationsPerFile = 20;

void run_file(const std::filesystem::path& path, std::mt19937_64& random) {
  std::ifstream stream(path, std::ios::binary);
  const std::vector<std::uint8_t> original((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  LLVMFuzzerTestOneInput(original.data(), original.size());
  // Large files are for whole runs; mutating them byte by byte tells nothing new.
  if (original.empty() || original.size() > (1 << 16)) return;
  for (int i = 0; i < kMutationsPerFile; ++i) {
    auto mutated = original;
    for (int k = 0; k < 1 + i % 4; ++k) mutated[random() % mutated.size()] = static_cast<std::uint8_t>(random());
    if (i % 5 == 0) mutated.resize(random() % mutated.size());
    LLVMFuzzerTestOneInput(mutated.data(), mutated.size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::mt19937_64 random(1);
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    const std::filesystem::path path(argv[i]);
    if (!std::filesystem::is_directory(path)) {
      run_file(path, random);
      ++files;
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.path().extension() != ".tensors") continue;
      run_file(entry.path(), random);
      ++files;
    }
  }
  std::printf("%d files\n", files);
  return files == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
