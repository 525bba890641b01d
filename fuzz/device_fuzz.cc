// Any bytes as a file of tensorizer's format: what a load into GPU memory finds, in the kernels or on the host, is what
// a load into host memory finds. The GPU is the stand-in of the tests, whose kernels are those of a GPU.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "expect.h"
#include "testing/files/memory_file.h"
#include "tzmark/crypto.h"
#include "tzmark/device.h"
#include "tzmark/reader.h"

namespace {

using namespace tzmark;

// That of most encrypted files of the corpus.
constexpr const char* kKeyHex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

using Tensors = std::vector<std::vector<std::byte>>;

struct Failure {
  std::string rule;
  std::optional<std::uint64_t> offset;
  bool operator==(const Failure&) const = default;
};

using Outcome = std::variant<Tensors, Failure>;

template <typename Load>
Outcome outcome_of(Load&& load) {
  try {
    return load();
  } catch (const Error& error) {
    fuzz::expect(error.error_class() == ErrorClass::kFile, error.what());
    return Failure{std::string(error.rule()), error.offset()};
  }
}

std::string name_of(const Outcome& outcome) {
  const auto* const failure = std::get_if<Failure>(&outcome);
  if (failure == nullptr) return "tensors";
  return failure->rule + (failure->offset ? " at " + std::to_string(*failure->offset) : "");
}

std::optional<Reader> open(std::span<const std::byte> file) {
  std::optional<Reader> opened;
  fuzz::accepts([&] {
    ReadOptions options;
    options.threads = 1;
    options.piece_bytes = 4096;
    options.key = key_from_hex(kKeyHex);
    opened.emplace(std::make_unique<MemoryFile>(std::vector<std::byte>(file.begin(), file.end())), std::move(options));
  });
  return opened;
}

Tensors on_host(const Reader& reader, Verification verify) {
  const LoadedTensors loaded = reader.load(verify);
  Tensors tensors(loaded.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].assign(loaded[i].begin(), loaded[i].end());
  return tensors;
}

Tensors on_device(const Reader& reader, const DeviceReadOptions& options) {
  const DeviceTensors loaded = reader.load_into_device(options);
  Tensors tensors(loaded.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].resize(loaded[i].size);
    copy_to_host(loaded[i], tensors[i]);
  }
  return tensors;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  ::setenv("TZMARK_CUDA_LIBRARY", TZMARK_FAKE_CUDA, 1);
  const std::string reason = DeviceMemory::why_unavailable();
  fuzz::expect(reason.empty(), "there is the stand-in of a GPU: " + reason);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto reader = open({reinterpret_cast<const std::byte*>(data), size});
  if (!reader) return 0;
  for (const Verification verify : {Verification::kNone, Verification::kAll}) {
    const Outcome expected = outcome_of([&] { return on_host(*reader, verify); });
    for (const DeviceCompute compute : {DeviceCompute::kHost, DeviceCompute::kDevice}) {
      // Of the Reader's pieces, so that a file has several.
      const DeviceReadOptions options{.verify = verify, .compute = compute, .piece_bytes = 0};
      const Outcome found = outcome_of([&] { return on_device(*reader, options); });
      fuzz::expect(found == expected, "a load into GPU memory ends as one into host memory: " + name_of(found) +
                                          " and not " + name_of(expected));
    }
  }
  return 0;
}
