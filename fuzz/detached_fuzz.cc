// Any bytes as the second file of detached data, and as the first of a pair that is right.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "expect.h"
#include "testing/files/memory_file.h"
#include "testing/files/tensors_files.h"
#include "tzmark/canonical.h"
#include "tzmark/reader.h"
#include "tzmark/writer.h"

namespace {

using namespace tzmark;

struct Pair {
  std::vector<std::byte> head, data;
};

const Pair& pair() {
  static const Pair made = [] {
    WriteOptions options;
    options.layout = Layout::kV5Segments;
    options.detached_data = true;
    const test::Content content = test::three_tensors();
    MemoryFile head, data;
    write_tensors(head, content.table, content.source(), options, &data);
    return Pair{head.content(), data.content()};
  }();
  return made;
}

void read(std::vector<std::byte> head, std::vector<std::byte> data) {
  const auto read_pair = [&] {
    ReadOptions options;
    options.threads = 1;
    options.piece_bytes = 4096;
    const Reader reader(std::make_unique<MemoryFile>(std::move(head)), std::make_unique<MemoryFile>(std::move(data)),
                        std::move(options));
    reader.verify();
    canonical_json(reader);
  };
  // Usage: data was given to a file that has its own.
  fuzz::accepts(read_pair, {ErrorClass::kFile, ErrorClass::kUsage});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> input(bytes, bytes + size);
  read(pair().head, input);
  read(input, pair().data);
  // The data of the pair, changed where the input is not zero: what no file of the corpus has.
  std::vector<std::byte> changed = pair().data;
  for (std::size_t i = 0; i < std::min(changed.size(), input.size()); ++i) changed[i] ^= input[i];
  read(pair().head, std::move(changed));
  return 0;
}
