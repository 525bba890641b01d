// Any bytes as a safetensors file: codec and model agree on verdict and content.
#include <cstdint>
#include <memory>
#include <vector>

#include "adapters/reference/safetensors_document.h"
#include "agreement.h"
#include "testing/files/memory_file.h"
#include "tzmark/safetensors.h"

namespace {

const tzmark::conformance::FileFormat& format() { return tzmark::conformance::format_of_name("safetensors"); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tzmark;
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  const auto open = [&] {
    SafetensorsReadOptions options;
    options.threads = 1;
    options.piece_bytes = 4096;
    return SafetensorsReader(std::make_unique<MemoryFile>(std::vector<std::byte>(file.begin(), file.end())), options);
  };
  fuzz::require_agreement(
      format(), file, std::nullopt,
      {.decode = [&] { return adapter::decode_safetensors(open()); }, .verify = [&] { open().verify(); }});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return tzmark::fuzz::mutate(format(), std::nullopt, data, size, max_size, seed);
}
