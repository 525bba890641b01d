// Tests of the digest of a file that is written in pieces.
#include "checkpoint/digest_file.h"

#include <gtest/gtest.h>

#include "bytes/digest.h"
#include "testing/caught.h"
#include "testing/files/memory_file.h"
#include "testing/files/tensors_files.h"
#include "testing/files/test_directory.h"
#include "tzmark/safetensors.h"

namespace tzmark::checkpoint {
namespace {

using test::caught;
using test::failure;

void put(File& file, std::uint64_t offset, const test::Bytes& bytes) { file.write_at(offset, std::span(bytes)); }

TEST(DigestFile, IsThatOfTheContentInWhateverOrderItWasWritten) {
  const test::Bytes content = test::random_bytes(100'000, 1);
  const std::size_t pieces[] = {60'000, 0, 99'999, 10, 30'000};
  const std::size_t ends[] = {99'999, 10, 100'000, 30'000, 60'000};
  MemoryFile inner;
  DigestFile file(inner);
  for (std::size_t i = 0; i < std::size(pieces); ++i) {
    file.write_at(pieces[i], std::span(content).subspan(pieces[i], ends[i] - pieces[i]));
  }
  EXPECT_EQ(inner.content(), content);
  EXPECT_EQ(file.digest(), (FileDigest{content.size(), crc64(0, content)}));
}

TEST(DigestFile, TakesAHoleForZerosAndAnEmptyFileForNothing) {
  MemoryFile inner;
  DigestFile file(inner);
  EXPECT_EQ(file.digest(), FileDigest());
  put(file, 5000, test::random_bytes(10, 1));
  EXPECT_EQ(file.digest(), (FileDigest{5010, crc64(0, inner.content())}));
}

TEST(DigestFile, RefusesBytesThatWereWrittenTwice) {
  MemoryFile inner;
  DigestFile file(inner);
  put(file, 0, test::Bytes(10));
  put(file, 9, test::Bytes(1));
  EXPECT_EQ(caught([&] { file.digest(); }), failure(ErrorCode::kWriteFailed, 9));
}

TEST(DigestFile, RefusesAFileThatEndsElsewhere) {
  MemoryFile inner;
  DigestFile file(inner);
  put(file, 0, test::Bytes(10));
  put(inner, 10, test::Bytes(1));
  EXPECT_EQ(caught([&] { file.digest(); }), failure(ErrorCode::kWriteFailed, 10));
}

// Through every path that this machine has, and every writer: with queues, alignment, and room made ahead.
TEST(DigestFile, AgreesWithWhatEveryPathHasWritten) {
  test::Content content = test::three_tensors();
  content.add({"large"}, "float32", {700, 1000});
  content.add({"odd"}, "uint8", {2'000'003});
  std::size_t paths = 0;
  for (const IoPath& path : io_paths()) {
    if (path.name == "gpudirect" || path.traits.is_remote || !path.why_unavailable().empty()) continue;
    ++paths;
    for (const Layout layout :
         {Layout::kV1, Layout::kV4, Layout::kV5FlaggedDims, Layout::kV5HeadersFirst, Layout::kV5Segments}) {
      const test::TestDirectory directory;
      const std::string name = directory / "file";
      const auto inner = path.open(name, OpenMode::kCreate);
      DigestFile file(*inner);
      WriteOptions options;
      options.layout = layout;
      options.piece_bytes = 256 << 10;
      write_tensors(file, content.table, content.source(), options);
      file.sync();
      const test::Bytes written = test::read_whole(name);
      EXPECT_EQ(file.digest(), (FileDigest{written.size(), crc64(0, written)}))
          << path.name << ' ' << layout_name(layout);
    }
  }
  EXPECT_GE(paths, 3U);
}

}  // namespace
}  // namespace tzmark::checkpoint
