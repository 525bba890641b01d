// Profiles: what they hold, what is refused, and which settings a file gets.
#include "tzmark/profile.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "testing/files/tensors_files.h"
#include "testing/files/test_directory.h"
#include "tzmark/checkpoint.h"
#include "tzmark/descriptor.h"
#include "tzmark/device.h"
#include "tzmark/error.h"
#include "tzmark/reader.h"
#include "tzmark/safetensors.h"
#include "tzmark/writer.h"

namespace tzmark {
namespace {

using ::testing::HasSubstr;

std::string with_task(const std::string& settings) {
  return R"({"schema_version": 1, "kind": "profile", "load-warm": )" + settings + "}";
}

void write_text(const std::string& name, std::string_view text) {
  test::write_whole(name, std::as_bytes(std::span(text)));
}

std::string profile_refusal(const std::string& text) {
  try {
    parse_profile(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage) << text;
    return error.what();
  }
  return "accepted";
}

Profile whole_profile() {
  Profile profile;
  profile.note = "tzmark tune /data";
  profile.load_warm = ProfileSettings{.io_path = "mmap", .threads = 2};
  profile.load_cold = ProfileSettings{.io_path = "uring-direct",
                                      .block_bytes = 1 << 20,
                                      .queue_depth = 32,
                                      .threads = 4,
                                      .pages = HostMemory::Pages::kSmall};
  profile.save = ProfileSettings{.io_path = "auto", .pages = HostMemory::Pages::kHuge};
  return profile;
}

TEST(Profile, SurvivesItsText) { EXPECT_EQ(parse_profile(serialize(whole_profile())), whole_profile()); }

TEST(Profile, IsRefusedWithWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"", "it is empty"},
      {" \n", "it is empty"},
      {"[]", "the profile is not an object"},
      {"{", "parse error"},
      {with_task(R"({"io": "auto"})") + "x", "parse error"},
      {"\xef\xbb\xbf" + with_task(R"({"io": "auto"})"), "not JSON text"},
      {with_task(R"({"io": "auto"})") + std::string(1, '\0'), "not JSON text"},
      {R"({"kind": "profile", "load-warm": {"io": "auto"}})", "schema_version is not 1"},
      {R"({"schema_version": 2, "kind": "profile", "load-warm": {"io": "auto"}})", "schema_version is not 1"},
      {R"({"schema_version": 1, "load-warm": {"io": "auto"}})", R"(kind is not "profile")"},
      {R"({"schema_version": 1, "kind": "profile"})", "none of load-warm, load-cold and save"},
      {R"({"schema_version": 1, "kind": "profile", "note": 1, "save": {"io": "auto"}})", "note is not a string"},
      {R"({"schema_version": 1, "kind": "profile", "save": {"io": "auto"}, "load": {}})", "unknown member 'load'"},
      {R"({"schema_version": 1, "kind": "profile", "save": {"io": "auto"}, "save": {"io": "auto"}})",
       "'save' is there twice"},
      {with_task("[]"), "load-warm is not an object"},
      {with_task("{}"), "load-warm sets nothing"},
      {with_task(R"({"depth": 1})"), "load-warm has an unknown member 'depth'"},
      {with_task(R"({"io": 1})"), "io of load-warm is not a string"},
      {with_task(R"({"io": "urin"})"), "there is no I/O path 'urin'"},
      {with_task(R"({"block_bytes": 4095})"), "block_bytes of load-warm is not a whole number from 4096"},
      {with_task(R"({"block_bytes": 1073741825})"), "to 1073741824"},
      {with_task(R"({"block_bytes": 1e6})"), "block_bytes of load-warm"},
      {with_task(R"({"queue_depth": -1})"), "queue_depth of load-warm"},
      {with_task(R"({"queue_depth": "8"})"), "queue_depth of load-warm"},
      {with_task(R"({"threads": 1025})"), "threads of load-warm"},
      {with_task(R"({"pages": "thp"})"), "pages of load-warm is neither huge nor small"},
      {with_task(R"({"io": [[[[[[[[[1]]]]]]]]]})"), "nests deeper"},
      {std::string(kProfileBytesMax + 1, ' '), "more than 65536 bytes"}};
  for (const auto& [text, what] : lines) {
    EXPECT_THAT(profile_refusal(text), HasSubstr(what)) << text.substr(0, 100);
    EXPECT_THAT(profile_refusal(text), ::testing::Not(HasSubstr("json.exception")));
  }
}

TEST(Profile, SetsOnlyWhatItNames) {
  ReadOptions reading;
  reading.queue_depth = 7;
  apply(ProfileSettings{.io_path = "mmap", .block_bytes = 8192}, reading);
  EXPECT_EQ(reading.io_path, "mmap");
  EXPECT_EQ(reading.piece_bytes, ReadOptions().piece_bytes) << "which a message of encryption needs";
  EXPECT_EQ(reading.part_bytes, 8192u);
  EXPECT_EQ(reading.queue_depth, 7u);
  EXPECT_EQ(reading.threads, 0u);
  const ProfileSettings cold = *whole_profile().load_cold;
  WriteOptions writing;
  apply(cold, writing);
  EXPECT_EQ(writing.io_path, "uring-direct");
  EXPECT_EQ(writing.piece_bytes, WriteOptions().piece_bytes);
  EXPECT_EQ(writing.part_bytes, 1u << 20);
  apply(ProfileSettings{.block_bytes = 8 << 20}, writing);
  EXPECT_EQ(writing.piece_bytes, 8u << 20);
  EXPECT_EQ(writing.queue_depth, 32u);
  EXPECT_EQ(writing.threads, 4u);
  SafetensorsReadOptions safetensors;  // without queue_depth
  apply(cold, safetensors);
  EXPECT_EQ(safetensors.io_path, "uring-direct");
  EXPECT_EQ(safetensors.piece_bytes, 1u << 20);
}

TEST(Profile, SetsTheCopiesToAGpu) {
  DeviceReadOptions options;
  const std::size_t standard = options.piece_bytes;
  apply(ProfileSettings{.io_path = "pwrite", .queue_depth = 3, .threads = 5}, options);
  EXPECT_EQ(options.piece_bytes, standard);
  apply(ProfileSettings{.block_bytes = 4 << 20}, options);
  EXPECT_EQ(options.piece_bytes, 4U << 20);
}

// Blocks below the size of a message neither divide it nor have it read twice.
TEST(Profile, ReadsEncryptedFilesOnceInSmallBlocks) {
  test::Content content;
  content.add({"large"}, "uint8", {5 << 20});
  for (std::uint64_t i = 0; i < 40; ++i) content.add({"small", i}, "uint8", {20'000});
  WriteOptions writing;
  writing.encrypt = test::with_key();
  const std::vector<std::byte> bytes = content.write(writing);
  ReadOptions reading = test::key_options();
  constexpr std::size_t kBlockBytes = 128 << 10;
  apply(ProfileSettings{.block_bytes = kBlockBytes}, reading);
  auto file = std::make_unique<test::CountingFile>(bytes);
  const test::CountingFile& counted = *file;
  const Reader reader(std::move(file), std::move(reading));
  const std::uint64_t opened_bytes = counted.bytes_read();
  reader.verify();
  EXPECT_LE(counted.bytes_read() - opened_bytes, bytes.size() + (64 << 10));
  EXPECT_LE(counted.largest_read_bytes(), kBlockBytes + (16 << 10));
}

TEST(Profile, IsReadFromADescriptor) {
  const test::TestDirectory directory;
  const std::string name = directory / "profile.json";
  write_text(name, serialize(whole_profile()));
  EXPECT_EQ(load_profile(name), whole_profile());
  const Descriptor fd(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(load_profile(fd.get()), whole_profile());
  write_text(name, std::string(kProfileBytesMax + 1, ' '));
  EXPECT_THROW(load_profile(name), Error);
  EXPECT_THROW(load_profile(directory / "absent"), Error);
}

TEST(Profile, ChoosesByThePageCache) {
  const Profile profile = whole_profile();
  const test::TestDirectory directory;
  const std::string name = directory / "file";
  test::write_whole(name, test::random_bytes(1 << 20, 1));
  EXPECT_EQ(profile.loading(name), profile.load_warm);  // just written
  EXPECT_EQ(profile.loading("-"), profile.load_warm);
  EXPECT_EQ(profile.loading(directory / "absent"), profile.load_cold);
  EXPECT_EQ(profile.loading(directory.name()), profile.load_cold);
  Profile one = profile;
  one.load_cold.reset();
  EXPECT_EQ(one.loading(directory / "absent"), profile.load_warm);
  one.load_warm.reset();
  EXPECT_EQ(one.loading(name), ProfileSettings());
  EXPECT_EQ(one.saving(), profile.save);
  const Descriptor fd(::open(name.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::fsync(fd.get()), 0);
  ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  // On tmpfs, nothing can be dropped.
  if (profile.loading(name) == profile.load_warm) GTEST_SKIP() << "the page cache keeps the file";
  EXPECT_EQ(profile.loading(name), profile.load_cold);
}

}  // namespace
}  // namespace tzmark
