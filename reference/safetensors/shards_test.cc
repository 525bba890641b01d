// The sharded form: what is written is read back, names agree, few files are open, and failures leave no mixture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "bytes/cursor.h"
#include "os/names_lock.h"
#include "safetensors/old_set.h"
#include "safetensors/shard_index.h"
#include "testing/caught.h"
#include "testing/files/memory_file.h"
#include "testing/files/safetensors_models.h"
#include "testing/files/test_directory.h"
#include "tzmark/digest.h"

namespace tzmark {
namespace {

using nlohmann::json;
using test::Content;
using test::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kIndexSuffix = ".safetensors.index.json";

// count tensors of 100 bytes.
Content hundreds(std::size_t count) {
  Content content;
  for (std::size_t i = 0; i < count; ++i) content.add({"layers." + std::to_string(i)}, "uint8", {100});
  return content;
}

SafetensorsWriteResult write(const test::TestDirectory& room, const Content& content, std::uint64_t shard_bytes_max,
                             SafetensorsWriteOptions options = {}) {
  options.shard_bytes_max = shard_bytes_max;
  options.threads = 2;
  options.piece_bytes = 4096;
  return write_safetensors(room / "model.safetensors", content.table, content.source(), options);
}

void expect_same_data(const Content& content, const SafetensorsReader& reader) {
  ASSERT_EQ(reader.size(), content.table.size());
  for (std::size_t i = 0; i < content.table.size(); ++i) {
    std::vector<std::byte> data(content.data[i].size());
    reader.read(content.table[i].name, std::span(data));
    EXPECT_EQ(data, content.data[i]) << content.table[i].name;
  }
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) count += entry.exists() ? 1 : 0;
  return count;
}

TEST(Shards, RoundTrip) {
  const test::TestDirectory room;
  Content content = hundreds(10);
  content.add({"large"}, "float32", {1000});  // larger than a shard
  content.add({"scalar"}, "int64", {});
  SafetensorsWriteOptions options;
  options.metadata = {{"format", "pt"}};
  const SafetensorsWriteResult result = write(room, content, 300, options);
  // 3 + 3 + 3 + 1, the large one, and what comes behind it.
  std::vector<std::string> names;
  for (int i = 1; i <= 6; ++i) names.push_back("model-0000" + std::to_string(i) + "-of-00006.safetensors");
  names.emplace_back(kIndex);
  EXPECT_EQ(room.entries(), names);
  std::uint64_t file_bytes = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(result.file_names[i], room / names[i]);
    file_bytes += std::filesystem::file_size(room / names[i]);
  }
  EXPECT_EQ(result.file_bytes, file_bytes);

  const SafetensorsReader reader = SafetensorsReader::open(room / kIndex);
  EXPECT_TRUE(reader.sharded());
  EXPECT_EQ(reader.shards().size(), 6U);
  EXPECT_EQ(reader.metadata(), options.metadata);
  EXPECT_EQ(reader.data_bytes(), 5008U);
  EXPECT_EQ(reader.file_bytes() + std::filesystem::file_size(room / kIndex), file_bytes);
  expect_same_data(content, reader);
  reader.verify();
  // Each shard is a file of its own, too.
  for (std::size_t i = 0; i < 6; ++i) {
    const SafetensorsReader shard = SafetensorsReader::open(room / names[i]);
    EXPECT_LE(shard.size() == 1 ? 0 : shard.data_bytes(), 300U);
    EXPECT_EQ(shard.metadata(), options.metadata);
  }
  const auto text = test::read_whole(room / kIndex);
  const json index = json::parse(as_text(text));
  EXPECT_EQ(index["metadata"]["total_size"], 5008);
  EXPECT_EQ(index["weight_map"].size(), 12U);
  EXPECT_EQ(index["weight_map"]["layers.3"], names[1]);
}

TEST(Shards, EverythingInOneShardIsStillTheShardedForm) {
  const test::TestDirectory room;
  write(room, hundreds(2), 1'000'000);
  EXPECT_THAT(room.entries(), ElementsAre("model-00001-of-00001.safetensors", kIndex));
  expect_same_data(hundreds(2), SafetensorsReader::open(room / kIndex));
}

TEST(Shards, NoTensorIsOneShard) {
  const test::TestDirectory room;
  write(room, Content(), 100);
  EXPECT_THAT(room.entries(), ElementsAre("model-00001-of-00001.safetensors", kIndex));
  EXPECT_EQ(SafetensorsReader::open(room / kIndex).size(), 0U);
}

TEST(Shards, AreNamedAfterTheFile) {
  const test::TestDirectory room;
  const Content content = hundreds(1);
  SafetensorsWriteOptions options;
  options.shard_bytes_max = 100;
  const auto name = [&](const std::string& file) {
    return error_of([&] { write_safetensors(room / file, content.table, content.source(), options); });
  };
  EXPECT_EQ(name("x.safetensors.index.json"), std::nullopt);
  EXPECT_THAT(room.entries(), ElementsAre("x-00001-of-00001.safetensors", "x.safetensors.index.json"));
  EXPECT_EQ(name("x.bin"), ErrorCode::kUsage);
  EXPECT_EQ(name(".safetensors"), ErrorCode::kUsage);
  options.shard_bytes_max = 0;
  EXPECT_EQ(name("x.safetensors.index.json"), ErrorCode::kUsage);
  EXPECT_EQ(safetensors::shard_file_name("m", 12, 345), "m-00012-of-00345.safetensors");
}

TEST(Shards, MoreThanFilesCanBeOpenAreRefused) {
  const test::TestDirectory room;
  EXPECT_EQ(error_of([&] { write(room, hundreds(513), 100); }), ErrorCode::kUsage);
  EXPECT_THAT(room.entries(), ::testing::IsEmpty());
}

TEST(Shards, FewAreOpenAtATime) {
  const test::TestDirectory room;
  const Content content = hundreds(60);
  write(room, content, 100);
  const std::size_t before = open_descriptors();
  const SafetensorsReader reader = SafetensorsReader::open(room / kIndex);
  EXPECT_EQ(reader.shards().size(), 60U);
  EXPECT_EQ(open_descriptors(), before + 8);
  // Streams hold no file, so any number may be open.
  std::vector<std::unique_ptr<TensorStream>> streams;
  for (std::size_t i = 0; i < reader.size(); ++i) streams.push_back(reader.open(i));
  EXPECT_EQ(open_descriptors(), before + 8);
  expect_same_data(content, reader);
  reader.verify();
  expect_same_data(content, reader);
  EXPECT_GT(open_descriptors(), before);
  EXPECT_LE(open_descriptors(), before + 8);
}

// Lowers the limit of open files for its lifetime.
class FileLimit {
 public:
  explicit FileLimit(rlim_t files) {
    ::getrlimit(RLIMIT_NOFILE, &old_);
    const rlimit low{files, old_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &low);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_NOFILE, &old_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit old_{};
};

TEST(Shards, OfLargeTensorsAreNotAllOpenAtATime) {
  const test::TestDirectory room;
  Content content;
  for (int i = 0; i < 60; ++i) content.add({"large." + std::to_string(i)}, "uint8", {20'000});
  write(room, content, 20'000);
  const FileLimit limit(open_descriptors() + 24);
  SafetensorsReadOptions options;
  options.threads = 2;
  options.piece_bytes = 4096;
  const auto reader = SafetensorsReader::open(room / kIndex, options);
  std::mutex mutex;
  std::size_t count = 0;
  reader.scan([&](std::size_t, const Sha256Digest&) {
    const std::lock_guard lock(mutex);
    ++count;
  });
  EXPECT_EQ(count, 60u);
}

// With each path: those of io_uring need several descriptors per file.
TEST(Shards, MoreThanFilesMayBeOpenAreReadOnEveryPath) {
  const test::TestDirectory room;
  Content content;
  for (int i = 0; i < 300; ++i) content.add({"layers." + std::to_string(i)}, "uint8", {10'000});
  write(room, content, 10'000);
  const FileLimit limit(64);
  for (const IoPath& path : io_paths()) {
    if (path.traits.is_remote || !path.why_unavailable().empty()) continue;
    SCOPED_TRACE(path.name);
    SafetensorsReadOptions options;
    options.io_path = path.name;
    options.threads = 8;
    options.piece_bytes = 4096;
    const auto reader = SafetensorsReader::open(room / kIndex, options);
    EXPECT_EQ(reader.shards().size(), 300U);
    reader.verify();
    expect_same_data(content, reader);
  }
}

TEST(Shards, AreHashedOnEveryPath) {
  const test::TestDirectory room;
  Content content;
  for (const std::uint64_t bytes : {100'000, 3, 0, 4'096, 70'001, 9'000, 1}) {
    content.add({"layers." + std::to_string(bytes)}, "uint8", {bytes});
  }
  write(room, content, 100'000);
  for (const IoPath& path : io_paths()) {
    if (path.traits.is_remote || !path.why_unavailable().empty()) continue;
    SCOPED_TRACE(path.name);
    SafetensorsReadOptions options;
    options.io_path = path.name;
    options.threads = 2;
    options.piece_bytes = 4096;
    std::atomic<std::uint64_t> told = 0;
    options.progress = [&](std::uint64_t bytes) { told += bytes; };
    const auto reader = SafetensorsReader::open(room / kIndex, options);
    ASSERT_GT(reader.shards().size(), 1U);
    std::map<std::string, Sha256Digest> digests;
    reader.scan([&](std::size_t tensor, const Sha256Digest& digest) {
      EXPECT_TRUE(digests.emplace(reader[tensor].name, digest).second);
    });
    EXPECT_EQ(told, reader.data_bytes());
    ASSERT_EQ(digests.size(), content.table.size());
    for (std::size_t i = 0; i < content.table.size(); ++i) {
      EXPECT_EQ(digests.at(std::string(content.table[i].name)), sha256(content.data[i])) << content.table[i].name;
    }
  }
}

// With few descriptors, so that every shard is opened again.
TEST(Shards, OneThatWasReplacedIsAnErrorAndNoMixture) {
  const auto opened = [](const test::TestDirectory& room) {
    const FileLimit limit(24);
    return SafetensorsReader::open(room / kIndex);
  };
  const auto wrong = [](const SafetensorsReader& reader) -> std::string {
    try {
      reader.verify();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string second = "model-00002-of-00020.safetensors";
  {
    // By one with the same size and time, as a copy with its attributes has.
    const test::TestDirectory room;
    write(room, hundreds(20), 100);
    const SafetensorsReader reader = opened(room);
    EXPECT_EQ(wrong(reader), "no error");
    const auto time = std::filesystem::last_write_time(room / second);
    auto bytes = test::read_whole(room / second);
    bytes.back() ^= std::byte{1};
    test::write_whole(room / "other", bytes);
    std::filesystem::last_write_time(room / "other", time);
    std::filesystem::rename(room / "other", room / second);
    EXPECT_THAT(wrong(reader), ::testing::AllOf(HasSubstr("TZE-ENV-005: " + second + ": the file was replaced"),
                                                HasSubstr("open the model again")));
  }
  {
    // By its own new content, in place.
    const test::TestDirectory room;
    write(room, hundreds(20), 100);
    const SafetensorsReader reader = opened(room);
    const auto bytes = test::read_whole(room / second);
    test::write_whole(room / second, bytes);
    std::filesystem::last_write_time(room / second,
                                     std::filesystem::last_write_time(room / second) + std::chrono::seconds(1));
    EXPECT_THAT(wrong(reader), HasSubstr("TZE-ENV-005: " + second));
  }
  {
    // The whole model, by our writer.
    const test::TestDirectory room;
    write(room, hundreds(20), 100);
    const SafetensorsReader reader = opened(room);
    write(room, hundreds(20), 100);
    EXPECT_THAT(wrong(reader), HasSubstr("TZE-ENV-005"));
    expect_same_data(hundreds(20), opened(room));
  }
}

TEST(Shards, AnIndexThatWasReplacedWhileItsShardsWereOpenedIsAnError) {
  const test::TestDirectory room;
  write(room, hundreds(4), 200);
  auto index = open_file(room / kIndex, OpenMode::kRead);
  write(room, hundreds(4), 200);
  try {
    SafetensorsReader::open(std::move(index), room / kIndex);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("TZE-ENV-005: the index was replaced"));
  }
}

// Many threads, more shards than may be open: each waits for a file and gets it.
TEST(Shards, ThreadsWaitForAFileWhileTooManyAreInUse) {
  const test::TestDirectory room;
  const Content content = hundreds(40);
  write(room, content, 100);
  const FileLimit limit(open_descriptors() + 16);
  const SafetensorsReader reader = SafetensorsReader::open(room / kIndex);
  std::atomic<int> right = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 16; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < 400; ++i) {
          const std::size_t tensor = (i * 7 + t * 3) % 40;
          std::vector<std::byte> data(100);
          reader.read(content.table[tensor].name, std::span(data));
          right += data == content.data[tensor] ? 1 : 0;
        }
      });
    }
  }
  EXPECT_EQ(right, 16 * 400);
}

TEST(Shards, BecomeTensorsFilesAndComeBack) {
  const test::TestDirectory room;
  const Content content = hundreds(20);
  write(room, content, 250);
  const SafetensorsReader reader = SafetensorsReader::open(room / kIndex);
  const TensorTable table = reader.tensor_table();
  MemoryFile file;
  write_tensors(file, table, reader, {});
  const Reader copy = test::open_bytes(file.content());
  copy.verify();
  const test::TestDirectory other;
  SafetensorsWriteOptions options;
  options.shard_bytes_max = 500;
  write_safetensors(other / "model.safetensors", copy.tensors(), copy, options);
  expect_same_data(content, SafetensorsReader::open(other / kIndex));
}

TEST(Shards, ErrorsNameTheShard) {
  const test::TestDirectory room;
  write(room, hundreds(4), 200);
  const std::string second = "model-00002-of-00002.safetensors";
  const auto message = [&](const std::function<void()>& action) -> std::string {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const SafetensorsReader reader = SafetensorsReader::open(room / kIndex);
  const auto whole = test::read_whole(room / second);
  test::write_whole(room / second, std::span(whole).first(whole.size() - 1));
  EXPECT_THAT(message([&] { SafetensorsReader::open(room / kIndex); }),
              ::testing::AllOf(HasSubstr("ST-015"), HasSubstr(second + ": the tensors have")));
  // A reader that was there before notices that the file is another one now.
  EXPECT_THAT(message([&] { reader.verify(); }), ::testing::AllOf(HasSubstr("TZE-ENV-005"), HasSubstr(second)));
  std::filesystem::remove(room / second);
  EXPECT_THAT(message([&] { SafetensorsReader::open(room / kIndex); }),
              ::testing::AllOf(HasSubstr("TZE-ENV-001"), HasSubstr(second)));
}

TEST(Shards, IndexIsNotReadWithoutLimit) {
  const test::TestDirectory room;
  test::write_whole(room / kIndex, {});
  std::filesystem::resize_file(room / kIndex, 100'000'001);
  EXPECT_EQ(error_of([&] { SafetensorsReader::open(room / kIndex); }), ErrorCode::kStShardIndex);
}

// Another set of shards of the same names: after a failure the old ones are whole, with their index.
TEST(Shards, FailureBeforeTheEndChangesNothing) {
  const test::TestDirectory room;
  const Content content = hundreds(6);
  write(room, content, 200);
  const auto names = room.entries();
  std::vector<ConstBuffer> views(content.table.size());
  for (std::size_t i = 0; i + 1 < views.size(); ++i) views[i] = ConstBuffer(content.data[0].data(), 100);
  SafetensorsWriteOptions options;
  options.shard_bytes_max = 200;
  EXPECT_EQ(
      error_of([&] { write_safetensors(room / "model.safetensors", content.table, MemorySource(views), options); }),
      ErrorCode::kUsage);
  EXPECT_EQ(room.entries(), names);
  expect_same_data(content, SafetensorsReader::open(room / kIndex));
}

TEST(Shards, NothingIsOverwrittenUnasked) {
  SafetensorsWriteOptions options;
  options.existing = AtomicFile::Existing::kRefuse;
  for (const std::string taken : {"model-00002-of-00003.safetensors", kIndex}) {
    const test::TestDirectory room;
    test::write_whole(room / taken, {});
    EXPECT_EQ(error_of([&] { write(room, hundreds(6), 200, options); }), ErrorCode::kOpenFailed);
    EXPECT_THAT(room.entries(), ElementsAre(taken));
    // The same if somebody else makes the file while ours are written: what has its name already goes again.
    std::filesystem::remove(room / taken);
    SafetensorsWriteOptions racing = options;
    racing.progress = [&](std::uint64_t) { test::write_whole(room / taken, {}); };
    // The index is open by then, and the second shard is not.
    EXPECT_EQ(error_of([&] { write(room, hundreds(6), 200, racing); }),
              taken == kIndex ? ErrorCode::kWriteFailed : ErrorCode::kOpenFailed);
    EXPECT_THAT(room.entries(), ElementsAre(taken));
  }
}

TEST(Shards, ReplaceAllOfAnOlderModel) {
  const test::TestDirectory room;
  test::write_whole(room / "model-00001-of-00009.safetensors", {});
  for (const std::size_t count : {6U, 3U, 3U, 6U}) {
    write(room, hundreds(count), 200);
    const SafetensorsReader reader = SafetensorsReader::open(room / kIndex);
    EXPECT_EQ(reader.size(), count);
    expect_same_data(hundreds(count), reader);
    // The index, the shards, and one that no index names.
    EXPECT_EQ(room.entries().size(), reader.shards().size() + 2);
  }
}

// The other one takes its names while this one is written.
TEST(Shards, ReplaceAModelThatAnotherWriterMadeMeanwhile) {
  for (const std::uint64_t other_shard_bytes : {100U, 200U, 300U}) {
    const test::TestDirectory room;
    write(room, hundreds(3), 200);
    SafetensorsWriteOptions options;
    bool is_other_written = false;
    options.progress = [&](std::uint64_t) {
      if (std::exchange(is_other_written, true)) return;
      write(room, hundreds(6), other_shard_bytes);
    };
    write(room, hundreds(4), 200, options);
    const SafetensorsReader reader = SafetensorsReader::open(room / kIndex);
    expect_same_data(hundreds(4), reader);
    EXPECT_EQ(room.entries().size(), reader.shards().size() + 1) << other_shard_bytes;
  }
}

// What took hours to write must not be lost because another process does not end.
TEST(Shards, ReplaceAModelThatIsLocked) {
  const test::TestDirectory room;
  write(room, hundreds(3), 200);
  SafetensorsWriteOptions options;
  options.names_wait.elapsed_max = std::chrono::milliseconds(100);
  {
    const NamesLock lock(std::make_shared<const Directory>(room.name()), options.names_wait);
    EXPECT_EQ(error_of([&] { write(room, hundreds(4), 200, options); }), ErrorCode::kFileLocked);
  }
  expect_same_data(hundreds(3), SafetensorsReader::open(room / kIndex));
  // As the error says.
  for (const std::string& entry : room.entries()) {
    const std::size_t mark = entry.find(".tmp-");
    if (mark != std::string::npos) std::filesystem::rename(room / entry, room / entry.substr(0, mark));
  }
  expect_same_data(hundreds(4), SafetensorsReader::open(room / kIndex));
}

// Anyone who may read a directory can lock it.
TEST(Shards, AreNotStoppedByALockOfTheDirectory) {
  const test::TestDirectory room;
  const Directory other(room.name());
  ASSERT_TRUE(try_lock(other.get(), Lock::kAlone));
  SafetensorsWriteOptions options;
  options.names_wait.elapsed_max = std::chrono::milliseconds(100);
  write(room, hundreds(4), 200, options);
  expect_same_data(hundreds(4), SafetensorsReader::open(room / kIndex));
}

TEST(Shards, ReplaceAModelWhoseIndexIsDamaged) {
  const test::TestDirectory room;
  for (const std::string index : {"", "{}", R"({"weight_map": 3})"}) {
    write(room, hundreds(3), 200);
    test::write_whole(room / kIndex, as_bytes(index));
    write(room, hundreds(4), 200);
    expect_same_data(hundreds(4), SafetensorsReader::open(room / kIndex));
    EXPECT_EQ(room.entries().size(), 3U);
  }
}

TEST(Shards, AreKnownByTheirNames) {
  for (const char* name :
       {"m-00001-of-00002.safetensors", "m-00012-of-123456.safetensors", "m.tmp-0123abcd-00001-of-00002.safetensors"}) {
    EXPECT_TRUE(safetensors::is_shard_file_name(name, "m")) << name;
    EXPECT_FALSE(safetensors::is_shard_file_name(name, "n")) << name;
  }
  for (const char* name : {"", "m", "m.safetensors", "m-1-of-2.safetensors", "m-00001-of-00002.safetensors.bak",
                           "mm-00001-of-00002.safetensors", "m.tmp-0123abcg-00001-of-00002.safetensors",
                           "m.tmp-0123abcd", "m.safetensors.index.json"}) {
    EXPECT_FALSE(safetensors::is_shard_file_name(name, "m")) << name;
  }
  EXPECT_FALSE(safetensors::is_shard_file_name("m-" + std::string(1'000'000, '0') + "-of-00002.safetensors", "m"));
}

TEST(ShardIndex, FindsWhatItNames) {
  const safetensors::ShardIndex index(R"({"weight_map": {"b": "2", "a": "1", "c": "2", "": "0"}})");
  EXPECT_THAT(index.files(), ElementsAre("0", "1", "2"));
  ASSERT_NE(index.find("c"), nullptr);
  EXPECT_EQ(index.find("c")->file, 2U);
  EXPECT_EQ(index.find("")->file, 0U);
  EXPECT_EQ(index.find("d"), nullptr);
}

TEST(ShardIndex, SpellsWhatItReads) {
  const std::string text = safetensors::serialize_shard_index(7, {{"b\"", "f1"}, {"a", "f2"}});
  EXPECT_EQ(text,
            "{\n  \"metadata\": {\n    \"total_size\": 7\n  },\n  \"weight_map\": {\n    \"a\": \"f2\",\n"
            "    \"b\\\"\": \"f1\"\n  }\n}\n");
  EXPECT_EQ(safetensors::ShardIndex(text).tensors().size(), 2U);
  EXPECT_EQ(safetensors::ShardIndex(safetensors::serialize_shard_index(0, {})).tensors().size(), 0U);
}

TEST(ShardIndex, KeepsTheTextsOfItsMetadata) {
  const safetensors::ShardIndex index(R"({"metadata": {"total_size": 7, "quantization": "awq", "deep": {"a": "b"},
      "total_parameters": 3}, "weight_map": {"quantization": "f"}, "other": {"x": "y"}})");
  EXPECT_EQ(index.metadata(), (std::map<std::string, std::string>{{"quantization", "awq"}}));
  const safetensors::ShardIndex again(safetensors::serialize_shard_index(7, {{"x", "f"}}, index.metadata()));
  EXPECT_EQ(again.metadata(), index.metadata());
}

// A private model stays private, whatever new names it gets.
TEST(Shards, AreNoMoreOpenThanTheModelThatTheyReplace) {
  const test::TestDirectory room;
  const auto expect_private = [&] {
    for (const std::string& entry : room.entries()) {
      EXPECT_EQ(std::filesystem::status(room / entry).permissions(), std::filesystem::perms(0600)) << entry;
    }
  };
  const auto make_private = [&] {
    for (const std::string& entry : room.entries()) {
      std::filesystem::permissions(room / entry, std::filesystem::perms(0600));
    }
  };
  write(room, hundreds(3), 0);
  make_private();
  write(room, hundreds(3), 200);
  expect_private();
  write(room, hundreds(6), 100);
  expect_private();
  std::filesystem::remove(room / "model.safetensors");
  write(room, hundreds(3), 0);
  expect_private();
}

TEST(Shards, OfTheInputAreNotReplacedAlone) {
  const test::TestDirectory room;
  write(room, hundreds(3), 200);
  const SafetensorsReader reader = SafetensorsReader::open(room / kIndex);
  const std::string shard = room / "model-00001-of-00002.safetensors";
  EXPECT_EQ(error_of([&] { write_safetensors(shard, reader.tensor_table(), reader); }), ErrorCode::kUsage);
  SafetensorsWriteOptions options;
  options.shard_bytes_max = 200;
  write_safetensors(room / "model.safetensors", reader.tensor_table(), reader, options);
  expect_same_data(hundreds(3), SafetensorsReader::open(room / kIndex));
}

// What another process has written meanwhile is not undone by what is made of the model that was there before.
TEST(Shards, OfAModelThatChangedSinceItWasOpenedStay) {
  const test::TestDirectory room;
  write(room, hundreds(3), 200);
  const SafetensorsReader reader = SafetensorsReader::open(room / kIndex);
  SafetensorsWriteOptions options;
  options.shard_bytes_max = 1000;
  const std::string index = R"({"weight_map": {}})";
  options.progress = [&](std::uint64_t) { test::write_whole(room / kIndex, as_bytes(index)); };
  EXPECT_EQ(error_of([&] { write_safetensors(room / "model.safetensors", reader.tensor_table(), reader, options); }),
            ErrorCode::kFileChanged);
  EXPECT_EQ(as_text(test::read_whole(room / kIndex)), index);
}

// Anyone can put an index into such a directory as /tmp.
TEST(Shards, ThatTheIndexOfAnotherUserNamesAreNotRemoved) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  const test::TestDirectory room;
  const std::string mine = room / "model-00007-of-00009.safetensors";
  test::write_whole(mine, {});
  test::write_whole(room / kIndex, as_bytes(R"({"weight_map": {"x": "model-00007-of-00009.safetensors"}})"));
  constexpr uid_t kOther = 65534;
  ASSERT_EQ(::chown((room / kIndex).c_str(), kOther, kOther), 0);
  EXPECT_THAT(write(room, hundreds(3), 200).old_file_names, ElementsAre(mine));
  EXPECT_TRUE(std::filesystem::exists(mine));
  // The owner of a directory that no one else can write to has put it there.
  test::write_whole(room / kIndex, as_bytes(R"({"weight_map": {"x": "model-00007-of-00009.safetensors"}})"));
  ASSERT_EQ(::chown((room / kIndex).c_str(), kOther, kOther), 0);
  ASSERT_EQ(::chown(room.name().c_str(), kOther, kOther), 0);
  EXPECT_THAT(write(room, hundreds(3), 200).old_file_names, ElementsAre());
  EXPECT_FALSE(std::filesystem::exists(mine));
}

TEST(Shards, MayHaveTheLongestNames) {
  const test::TestDirectory room;
  const std::string base(NAME_MAX - std::string_view("-00001-of-00002.safetensors").size(), 'n');
  SafetensorsWriteOptions options;
  options.shard_bytes_max = 200;
  for (const std::size_t count : {3U, 4U, 6U}) {
    const Content content = hundreds(count);
    write_safetensors(room / (base + ".safetensors"), content.table, content.source(), options);
    expect_same_data(content, SafetensorsReader::open(room / (base + kIndexSuffix)));
  }
  EXPECT_EQ(room.entries().size(), 4U);
  const Content content = hundreds(3);
  EXPECT_EQ(error_of([&] {
              write_safetensors(room / ("n" + base + ".safetensors"), content.table, content.source(), options);
            }),
            ErrorCode::kOpenFailed);
  EXPECT_TRUE(
      safetensors::is_shard_file_name(safetensors::temporary_base_name(base) + "-00001-of-00002.safetensors", base));
}

TEST(Shards, HaveAnIndexOfNoOtherName) {
  const test::TestDirectory room;
  const Content content = hundreds(3);
  for (const char* const name : {"M.SAFETENSORS.INDEX.JSON", "m.safetensors.index.fp16.json"}) {
    EXPECT_TRUE(is_safetensors_name(name));
    EXPECT_EQ(error_of([&] { write_safetensors(room / name, content.table, content.source()); }), ErrorCode::kUsage);
  }
  EXPECT_TRUE(room.entries().empty());
}

}  // namespace
}  // namespace tzmark
