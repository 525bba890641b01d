// Any bytes as a safetensors file and as an index of shards: opening and reading end in a result or in an Error about
// the file, and what the strict profile accepts the lenient one accepts too.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "safetensors/shard_index.h"
#include "testing/files/memory_file.h"
#include "tzmark/error.h"
#include "tzmark/safetensors.h"

namespace {

// Whether action comes to its end.
template <typename Action>
bool accepts(Action&& action) {
  try {
    action();
    return true;
  } catch (const tzmark::Error& error) {
    if (error.error_class() != tzmark::ErrorClass::kFile) std::abort();
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tzmark;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto read = [&](SafetensorsProfile profile) {
    return accepts([&] {
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
  if (strict && !lenient) std::abort();
  accepts([&] {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const safetensors::ShardIndex index(text);
    if (index.files().size() > index.tensors().size()) std::abort();
  });
  return 0;
}
