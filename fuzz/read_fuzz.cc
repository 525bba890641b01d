// Any bytes as a file: opening, checking and decoding end in a result or in an Error about the file.
#include <cstdint>
#include <memory>
#include <vector>

#include "expect.h"
#include "testing/files/memory_file.h"
#include "tzmark/canonical.h"
#include "tzmark/reader.h"

namespace {

template <typename Action>
void run(const std::uint8_t* data, std::size_t size, bool with_key, Action&& action) {
  using namespace tzmark;
  fuzz::accepts([&] {
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    ReadOptions options;
    options.threads = 1;
    options.piece_bytes = 4096;
    if (with_key) options.key = Key();
    const Reader reader(std::make_unique<MemoryFile>(std::vector<std::byte>(bytes, bytes + size)), std::move(options));
    action(reader);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const bool with_key : {false, true}) {
    run(data, size, with_key, [](const tzmark::Reader& reader) { reader.verify(); });
    run(data, size, with_key, [](const tzmark::Reader& reader) { tzmark::canonical_json(reader); });
  }
  return 0;
}
