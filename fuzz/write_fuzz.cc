// Any bytes as a file: what can be read, a writer writes in each layout that can hold it, and reads as the same.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "expect.h"
#include "testing/files/memory_file.h"
#include "tzmark/error.h"
#include "tzmark/reader.h"
#include "tzmark/writer.h"

namespace {

using namespace tzmark;

struct Content {
  Path path;
  Kind kind;
  std::uint16_t module_index;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::optional<std::array<std::byte, 32>> sha256;

  bool operator==(const Content&) const = default;
};

Reader reader_of(std::vector<std::byte> bytes) {
  ReadOptions options;
  options.threads = 1;
  options.piece_bytes = 4096;
  return Reader(std::make_unique<MemoryFile>(std::move(bytes)), std::move(options));
}

std::vector<Content> content_of(const Reader& reader, const TensorTable& table) {
  std::vector<Content> content;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const TensorInfo tensor = table[i];
    content.push_back({tensor.path(), tensor.kind, tensor.module_index, std::string(tensor.dtype.wire),
                       std::vector(tensor.shape.begin(), tensor.shape.end()), std::nullopt});
  }
  reader.scan({.plain_sha256 = true},
              [&](const ScannedTensor& tensor) { content[tensor.index].sha256 = tensor.plain_sha256; });
  return content;
}

void write_again(const Reader& reader) {
  const TensorTable table = writable_table(reader);
  const std::vector<Content> content = content_of(reader, table);
  const Layout lowest = lowest_layout(table, false);
  for (const Layout layout : kLayouts) {
    MemoryFile written;
    WriteOptions options;
    options.layout = layout;
    options.threads = 1;
    options.piece_bytes = 4096;
    options.verify_source = false;
    options.unhashed = true;
    const bool writes =
        fuzz::accepts([&] { write_tensors(written, table, reader, options); }, {ErrorClass::kFile, ErrorClass::kUsage});
    // v3 is always encrypted.
    fuzz::expect(writes == (can_hold(layout, lowest) && layout != Layout::kV3), "a layout holds what is said");
    if (!writes) continue;
    const Reader again = reader_of(written.content());
    again.verify();
    fuzz::expect(content_of(again, writable_table(again)) == content, "what is written is read");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  // Usage: readers take some names that writers refuse.
  fuzz::accepts(
      [&] {
        const Reader reader = reader_of(std::vector(bytes, bytes + size));
        write_again(reader);
      },
      {ErrorClass::kFile, ErrorClass::kUsage});
  return 0;
}
