// Any bytes as a file of tensorizer's format: codec and model agree on verdict and content.
#include <cstdint>
#include <memory>
#include <vector>

#include "agreement.h"
#include "testing/files/memory_file.h"
#include "tzmark/canonical.h"
#include "tzmark/crypto.h"
#include "tzmark/reader.h"

namespace {

const tzmark::conformance::FileFormat& format() { return tzmark::conformance::format_of_name("tensorizer"); }

// That of most encrypted files of the corpus.
constexpr const char* kKeyHex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tzmark;
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  const auto open = [&] {
    ReadOptions options;
    options.threads = 1;
    options.piece_bytes = 4096;
    options.key = key_from_hex(kKeyHex);
    return Reader(std::make_unique<MemoryFile>(std::vector<std::byte>(file.begin(), file.end())), std::move(options));
  };
  fuzz::require_agreement(format(), file, kKeyHex,
                          {.decode = [&] { return canonical_json(open()); }, .verify = [&] { open().verify(); }});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return tzmark::fuzz::mutate(format(), kKeyHex, data, size, max_size, seed);
}
