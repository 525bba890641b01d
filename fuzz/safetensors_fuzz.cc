// Any bytes as a safetensors file and as an index of shards: opening and reading end in a result or in an Error about
// the file, and what the strict profile accepts the lenient one accepts too.
#include <cstdint>
#include <memory>
#include <string_view>

#include "expect.h"
#include "safetensors/shard_index.h"
#include "testing/files/memory_file.h"
#include "tzmark/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tzmark;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto read = [&](SafetensorsProfile profile) {
    return fuzz::accepts([&] {
      SafetensorsReadOptions options;
      options.profile = profile;
      options.threads = 1;
      options.piece_bytes = 4096;
      const SafetensorsReader reader(std::make_unique<MemoryFile>(std::vector<std::byte>(bytes, bytes + size)),
                                     options);
      canonical_json(reader);
    });
  };
  const bool strict = read(SafetensorsProfile::kSpec);
  const bool lenient = read(SafetensorsProfile::kLibrary);
  fuzz::expect(!strict || lenient, "the lenient profile accepts what the strict one does");
  fuzz::accepts([&] {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const safetensors::ShardIndex index(text);
    fuzz::expect(index.files().size() <= index.tensors().size(), "each shard has a tensor");
  });
  return 0;
}
