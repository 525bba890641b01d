// Tests of saving and loading by one process: what is written is what was there when save was called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <thread>

#include "os/directory.h"
#include "testing/faults/system_calls.h"
#include "testing/faults/thread_limit.h"
#include "testing/files/checkpoint_models.h"
#include "testing/gpu/fake.h"
#include "tzmark/device_memory.h"

namespace tzmark {
namespace {

using test::Call;
using test::caught;
using test::content_of;
using test::failure;
using test::small_model;
using test::small_optimizer;
using test::state_at;
using testing::ElementsAre;
using testing::HasSubstr;

void expect_checkpoint(const std::string& directory, const test::Model& model, const TrainingState& state,
                       const CheckpointReadOptions& options = {}) {
  const LoadedCheckpoint loaded = load_checkpoint(directory, options);
  EXPECT_EQ(content_of(loaded.model), model.content());
  EXPECT_EQ(test::kinds_of(loaded.model), test::kinds_of(model));
  EXPECT_EQ(loaded.state, state);
}

TEST(AsyncCheckpointer, WritesTheFilesOfACheckpointAndReadsThemBack) {
  const test::TestDirectory directory;
  const test::Model model = small_model(1), optimizer = small_optimizer(1);
  AsyncCheckpointer checkpointer;
  checkpointer.save(directory / "a", model, optimizer, state_at(7));
  const WriteReport report = checkpointer.wait();
  EXPECT_THAT(test::entries_of(directory), ElementsAre("a", "latest"));
  std::vector<std::string> files;
  for (const DirectoryEntry& entry : Directory(directory / "a").list()) files.push_back(entry.name);
  EXPECT_THAT(files, ElementsAre("commit.json", "model.safetensors", "optimizer.safetensors", "training_state.json"));
  expect_checkpoint(directory / "a", model, state_at(7));
  EXPECT_EQ(content_of(load_checkpoint(directory / "a").optimizer), optimizer.content());
  EXPECT_EQ(report.snapshot_bytes, 8 * 16 * 4 + 16 * 2 + 8 + 2 * 8 * 16 * 4U);
  EXPECT_GT(report.file_bytes, report.snapshot_bytes);
  EXPECT_EQ(verify_checkpoint(directory / "a").step, 7U);
}

TEST(AsyncCheckpointer, WritesNoFileForAnEmptyOptimizerAndLeavesNoOldOne) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  checkpointer.save(directory / "a", small_model(1), small_optimizer(1), state_at(1));
  checkpointer.save(directory / "a", small_model(2), {}, state_at(2));
  checkpointer.wait();
  EXPECT_FALSE(std::filesystem::exists(directory / "a/optimizer.safetensors"));
  EXPECT_TRUE(load_checkpoint(directory / "a").optimizer.empty());
  expect_checkpoint(directory / "a", small_model(2), state_at(2));
  EXPECT_THAT(test::entries_of(directory), ElementsAre("a", "latest"));
}

TEST(AsyncCheckpointer, KeepsTheBytesOfEveryDtypeInEveryFormat) {
  test::Model model;
  for (const char* dtype : {"bool", "uint8", "int8", "float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu",
                            "float8_e4m3fnuz", "float8_e5m2fnuz", "int16", "uint16", "float16", "bfloat16", "int32",
                            "uint32", "float32", "complex64", "float64", "int64", "uint64"}) {
    model.add(std::string("t.") + dtype, dtype, {2, 3}, 5);
  }
  model.add("none", "float32", {4, 0}, 5);
  model.add("large", "float32", {300, 1000}, 6);
  std::vector<CheckpointOptions> all(2);
  all[1].format = CheckpointOptions::Format::kTensors;
  for (const Layout layout :
       {Layout::kV2, Layout::kV4, Layout::kV5FlaggedDims, Layout::kV5HeadersFirst, Layout::kV5Segments}) {
    all.push_back(all[1]);
    all.back().layout = layout;
  }
  for (CheckpointOptions& options : all) {
    const test::TestDirectory directory;
    options.piece_bytes = 64 << 10;
    AsyncCheckpointer checkpointer(options);
    checkpointer.save(directory / "a", model, {}, state_at(1));
    checkpointer.wait();
    expect_checkpoint(directory / "a", model, state_at(1));
    verify_checkpoint(directory / "a");
  }
}

TEST(AsyncCheckpointer, WritesWhatTheTensorsHeldWhenSaveWasCalled) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  test::Model model;
  model.add("large", "float32", {1 << 20}, 3);
  model.add("small", "float32", {3}, 4);
  for (std::uint64_t step = 1; step <= 6; ++step) {
    model.overwrite(static_cast<std::byte>(step));
    const auto before = model.content();
    checkpointer.save(directory / "a", model, {}, state_at(step));
    model.overwrite(std::byte{0xEE});
    checkpointer.wait();
    EXPECT_EQ(content_of(load_checkpoint(directory / "a").model), before);
  }
}

TEST(AsyncCheckpointer, SavesTwiceInARowAndWaitsWhenItIsDestroyed) {
  const test::TestDirectory directory;
  {
    AsyncCheckpointer checkpointer;
    checkpointer.save(directory / "a", small_model(1), {}, state_at(1));
    checkpointer.save(directory / "b", small_model(2), {}, state_at(2));
  }
  expect_checkpoint(directory / "a", small_model(1), state_at(1));
  expect_checkpoint(directory / "b", small_model(2), state_at(2));
  EXPECT_EQ(read_latest_checkpoint(directory.name()), directory / "b");
}

// Holds back every write until it is told to go on.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

TEST(AsyncCheckpointer, ReturnsBeforeItWritesAndWaitsForTheWriteBefore) {
  const test::TestDirectory directory;
  Gate gate;
  const test::SystemCalls calls([&](const Call& call) {
    if (call.kind == Call::Kind::kWrite) gate.pass();
    return true;
  });
  AsyncCheckpointer checkpointer;
  EXPECT_EQ(checkpointer.save(directory / "a", small_model(1), {}, state_at(1)).wait_ns / 1'000'000, 0U);
  EXPECT_FALSE(std::filesystem::exists(directory / "a"));
  const std::uint64_t held_bytes = checkpointer.snapshot_memory_bytes();
  std::jthread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    gate.open();
  });
  EXPECT_GE(checkpointer.save(directory / "b", small_model(2), {}, state_at(2)).wait_ns, 20'000'000U);
  EXPECT_TRUE(std::filesystem::is_directory(directory / "a"));
  checkpointer.wait();
  EXPECT_EQ(checkpointer.snapshot_memory_bytes(), held_bytes) << "the memory was not used again";
}

TEST(AsyncCheckpointer, WritesBeforeItReturnsIfNoThreadStarts) {
  const test::TestDirectory directory;
  // More than one thread would copy it, and read it back.
  test::Model model;
  model.add("large", "float32", {3 << 20}, 3);
  CheckpointOptions options;
  options.threads = 4;
  CheckpointReadOptions read_options;
  read_options.threads = 4;
  for (const int limit : {0, 1}) {
    const std::string name = directory / std::to_string(limit);
    AsyncCheckpointer checkpointer(options);
    {
      const test::ThreadLimit few(limit);
      checkpointer.save(name, model, {}, state_at(1));
      EXPECT_GT(few.refused(), 0);
      if (limit == 0) {
        EXPECT_EQ(verify_checkpoint(name).step, 1U);
      }
      checkpointer.wait();
      expect_checkpoint(name, model, state_at(1), read_options);
    }
  }
  AsyncCheckpointer checkpointer;
  const test::ThreadLimit none(0);
  checkpointer.save(directory / "none/a", small_model(1), {}, state_at(1));
  EXPECT_EQ(caught([&] { checkpointer.wait(); }), failure(ErrorCode::kOpenFailed));
}

TEST(AsyncCheckpointer, HoldsOneSnapshotAndRefusesOneThatCanNeverFit) {
  const test::TestDirectory directory;
  test::Model model;
  model.add("w", "uint8", {8 << 20}, 1);
  CheckpointOptions options;
  options.piece_bytes = 64 << 10;
  options.threads = 2;
  options.memory_limit_bytes = 11 << 20;
  AsyncCheckpointer checkpointer(options);
  checkpointer.reserve(4 << 20);
  EXPECT_EQ(checkpointer.snapshot_memory_bytes(), 4U << 20);
  for (std::uint64_t step = 1; step <= 3; ++step) checkpointer.save(directory / "a", model, {}, state_at(step));
  EXPECT_EQ(checkpointer.snapshot_memory_bytes(), 8U << 20);
  model.add("x", "uint8", {3 << 20}, 1);
  EXPECT_EQ(caught([&] { checkpointer.save(directory / "b", model, {}, state_at(4)); }), failure(ErrorCode::kResource));
  EXPECT_EQ(checkpointer.snapshot_memory_bytes(), 8U << 20);
  checkpointer.wait();
  EXPECT_EQ(load_checkpoint(directory / "a").state, state_at(3));
  EXPECT_FALSE(std::filesystem::exists(directory / "b"));
}

TEST(AsyncCheckpointer, ThrowsAFailedWriteOnceFromTheNextSaveWhichIsWrittenAllTheSame) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  checkpointer.save(directory / "none/a", small_model(1), {}, state_at(1));
  EXPECT_THAT(test::message_of([&] { checkpointer.save(directory / "b", small_model(2), {}, state_at(2)); }),
              HasSubstr("none: cannot open the directory"));
  checkpointer.wait();
  expect_checkpoint(directory / "b", small_model(2), state_at(2));
  EXPECT_GT(checkpointer.last_times().copy_ns, 0U);
}

TEST(AsyncCheckpointer, ThrowsAFailedWriteFromWaitOnce) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  checkpointer.save(directory / "none/a", small_model(1), {}, state_at(1));
  EXPECT_EQ(caught([&] { checkpointer.wait(); }), failure(ErrorCode::kOpenFailed));
  EXPECT_EQ(checkpointer.wait().file_bytes, 0U);
}

TEST(AsyncCheckpointer, KeepsAFailedWriteForLaterIfTheNextSaveCannotBeTaken) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  checkpointer.save(directory / "none/a", small_model(1), {}, state_at(1));
  test::Model wrong;
  wrong.add("w", "float32", {2}, test::Bytes(7));
  EXPECT_EQ(caught([&] { checkpointer.save(directory / "b", wrong, {}, state_at(2)); }), failure(ErrorCode::kUsage));
  EXPECT_EQ(caught([&] { checkpointer.wait(); }), failure(ErrorCode::kOpenFailed));
}

TEST(AsyncCheckpointer, RefusesWhatMakesNoSense) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  const auto save = [&](const std::string& name, const test::Model& model, TrainingState state = state_at(1)) {
    return caught([&] { checkpointer.save(directory / name, model, {}, state); });
  };
  test::Model twice = small_model(1);
  twice.add("steps", "int64", {}, 1);
  test::Model unknown;
  unknown.add("w", "float32", {2}, 1);
  auto views = unknown.views();
  views[0].dtype = "float33";
  TrainingState infinite = state_at(1);
  infinite.learning_rate = INFINITY;
  TrainingState not_text = state_at(1);
  not_text.metadata["a"] = "\xff";
  EXPECT_EQ(save("a", twice), failure(ErrorCode::kUsage));
  EXPECT_EQ(caught([&] { checkpointer.save(directory / "a", views, {}, state_at(1)); }), failure(ErrorCode::kUsage));
  EXPECT_EQ(save("a", small_model(1), infinite), failure(ErrorCode::kUsage));
  EXPECT_EQ(save("a", small_model(1), not_text), failure(ErrorCode::kUsage));
  for (const char* name : {"latest", "x.tmp-1", "..", "."}) {
    EXPECT_EQ(save(name, small_model(1)), failure(ErrorCode::kUsage)) << name;
  }
  EXPECT_TRUE(test::entries_of(directory).empty());
  CheckpointOptions options;
  options.layout = Layout::kV4;
  EXPECT_EQ(caught([&] { AsyncCheckpointer refused(options); }), failure(ErrorCode::kUsage));
  options = {};
  options.retention.keep_every = 10;
  EXPECT_EQ(caught([&] { AsyncCheckpointer refused(options); }), failure(ErrorCode::kUsage));
  for (const std::size_t piece_bytes : {std::size_t{0}, std::size_t{4095}, SIZE_MAX}) {
    options = {};
    options.piece_bytes = piece_bytes;
    EXPECT_EQ(caught([&] { AsyncCheckpointer refused(options); }), failure(ErrorCode::kUsage)) << piece_bytes;
  }
}

TEST(AsyncCheckpointer, CommitsNoRecordThatNoReaderTakes) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  TrainingState state = state_at(1);
  state.metadata["note"] = std::string((std::size_t{64} << 20) + 1, 'a');
  checkpointer.save(directory / "a", small_model(1), {}, state);
  EXPECT_EQ(caught([&] { checkpointer.wait(); }), failure(ErrorCode::kResource));
  EXPECT_TRUE(test::entries_of(directory).empty());
}

TEST(AsyncCheckpointer, KeepsTheOldCheckpointIfTheNewOneIsNotWholeOnDisk) {
  const test::TestDirectory directory;
  bool damages = false;
  const test::SystemCalls calls([&](const Call& call) {
    if (damages && call.kind == Call::Kind::kSync && call.path.ends_with("model.safetensors")) {
      test::write_whole(call.path, test::Bytes(50));
    }
    return true;
  });
  AsyncCheckpointer checkpointer;
  checkpointer.save(directory / "a", small_model(1), {}, state_at(1));
  checkpointer.wait();
  damages = true;
  checkpointer.save(directory / "a", small_model(2), {}, state_at(2));
  EXPECT_THAT(test::message_of([&] { checkpointer.wait(); }),
              HasSubstr("existing checkpoint kept: the replacement failed verification"));
  expect_checkpoint(directory / "a", small_model(1), state_at(1));
  EXPECT_THAT(test::entries_of(directory), ElementsAre("a", "latest"));
}

TEST(LoadCheckpoint, FollowsALink) {
  const test::TestDirectory directory;
  AsyncCheckpointer checkpointer;
  checkpointer.save(directory / "a", small_model(1), {}, state_at(1));
  checkpointer.wait();
  std::filesystem::create_directory_symlink("a", directory / "current");
  expect_checkpoint(directory / "current", small_model(1), state_at(1));
  EXPECT_FALSE(Directory(directory.name()).make_directory("current"));
}

TEST(AsyncCheckpointer, RefusesADirectoryThatIsThereIfItIsToldTo) {
  const test::TestDirectory directory;
  CheckpointOptions options;
  options.existing = CheckpointOptions::Existing::kRefuse;
  AsyncCheckpointer checkpointer(options);
  checkpointer.save(directory / "a", small_model(1), {}, state_at(1));
  checkpointer.wait();
  checkpointer.save(directory / "a", small_model(2), {}, state_at(2));
  EXPECT_EQ(caught([&] { checkpointer.wait(); }), failure(ErrorCode::kOpenFailed));
  expect_checkpoint(directory / "a", small_model(1), state_at(1));
  EXPECT_THAT(test::entries_of(directory), ElementsAre("a", "latest"));
}

TEST(AsyncCheckpointer, CopiesDeviceMemoryToPinnedMemory) {
  ASSERT_EQ(DeviceMemory::why_unavailable(), "");
  const test::TestDirectory directory;
  test::Model model = small_model(1);
  const test::Bytes content = test::random_bytes(3 << 20, 9);
  DeviceMemory device(content.size());
  device.copy_from_host(0, content);
  auto views = model.views();
  views.push_back({"on.device", "uint8", {content.size()}, device.buffer()});
  {
    AsyncCheckpointer checkpointer;
    checkpointer.save(directory / "host", model, {}, state_at(1));
    EXPECT_EQ(tzmark_fake_pinned_bytes(), 0U);
    checkpointer.save(directory / "a", views, {}, state_at(1));
    EXPECT_EQ(tzmark_fake_pinned_bytes(), checkpointer.snapshot_memory_bytes());
    device.copy_from_host(0, test::Bytes(content.size()));
    checkpointer.wait();
  }
  EXPECT_EQ(tzmark_fake_pinned_bytes(), 0U);
  EXPECT_EQ(content_of(load_checkpoint(directory / "a").model)["on.device"], content);
}

// What other programs write: no commit.json, and the files of the format alone.
TEST(LoadCheckpoint, ReadsACheckpointWithoutCommitOnlyIfItIsAskedTo) {
  const test::TestDirectory directory;
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  file += header + std::string("\0\0\x80\x3f\0\0\0\x40", 8);
  std::filesystem::create_directory(directory / "a");
  test::write_whole(directory / "a/model.safetensors", std::as_bytes(std::span(file)));
  const std::string state = R"({"version": 2, "step": 41, "metadata": {}, "something": [1]})";
  test::write_whole(directory / "a/training_state.json", std::as_bytes(std::span(state)));
  EXPECT_EQ(caught([&] { load_checkpoint(directory / "a"); }), failure(ErrorCode::kCheckpointUncommitted));
  EXPECT_FALSE(find_newest_checkpoint(directory.name()));
  CheckpointReadOptions options;
  options.commit = CheckpointReadOptions::Commit::kNotRequired;
  const LoadedCheckpoint loaded = load_checkpoint(directory / "a", options);
  EXPECT_EQ(loaded.state.step, 41U);
  EXPECT_EQ(loaded.state.epoch, 0U);
  ASSERT_EQ(loaded.model.size(), 1U);
  EXPECT_EQ(loaded.model[0].dtype, "float32");
  EXPECT_EQ(std::memcmp(loaded.model[0].data.data, file.data() + file.size() - 8, 8), 0);
}

}  // namespace
}  // namespace tzmark
