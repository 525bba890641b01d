// The parts of the command that need no long measurement: sizes of predictions, exports as files, the first signal, the
// rate of a device load, and what a meter does to files.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "cli/tune/device_load.h"
#include "cli/tune/export_files.h"
#include "cli/tune/named_workload.h"
#include "cli/tune/storage_meter.h"
#include "cli/tune/tune_summary.h"
#include "harness/interruption.h"
#include "subjects/content.h"
#include "testing/files/test_directory.h"
#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/profile.h"

namespace tzmark::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string text_of(const std::string& name) {
  const auto bytes = test::read_whole(name);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Prediction, IsOfTheFullModelOrOfASize) {
  const NamedWorkload full = parse_named_workload("llama-3.1-8b");
  EXPECT_EQ(full.bytes, make_workload("llama-3.1-8b").data_bytes());
  EXPECT_EQ(full.tensors, make_workload("llama-3.1-8b").tensors.size());
  const NamedWorkload tiny = parse_named_workload("many-tiny/64MiB");
  EXPECT_EQ(tiny.text, "many-tiny/64MiB");
  EXPECT_EQ(tiny.bytes, make_workload("many-tiny", std::uint64_t{64} << 20).data_bytes());
}

TEST(Prediction, RejectsUnknownNamesAndSizes) {
  for (const char* text : {"", "/64MiB", "nothing", "gpt2/", "gpt2/large", "gpt2/0", "gpt2/-1MiB", "gpt2/64MiB/2"}) {
    try {
      static_cast<void>(parse_named_workload(text));
      ADD_FAILURE() << "accepted '" << text << "'";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage) << text;
    }
  }
}

TEST(Summary, CallsNoTieAGain) {
  EXPECT_EQ(effect_text({1.12, 1.08, 1.16, 20}), "tried: +12 % (+8 to +16)");
  EXPECT_EQ(effect_text({1.12, 0.98, 1.3, 8}), "tried, a tie: +12 % (-2 to +30)");
  EXPECT_EQ(effect_text({0.8, 0.7, 0.9, 8}), "tried, and it is slower here: -20 % (-30 to -10)");
  EXPECT_EQ(effect_text({.estimate = 0.57, .pairs = 1}), "tried too briefly to tell");
}

TEST(ExportFiles, AreWrittenInADirectoryPerTaskAndNotReplaced) {
  const test::TestDirectory directory;
  const std::string to = directory.name() + "/exports";
  const std::vector<Export> first = {{"fio", "save", "fio.ini", "old\n", {}},
                                     {"runai", "load-cold", {}, "A=1\n", {}},
                                     {"tzmark", "all", "profile.json", "{}\n", {}}};
  EXPECT_THAT(ExportFiles(to, false).write(first), SizeIs(3));
  EXPECT_EQ(text_of(to + "/save/fio.ini"), "old\n");
  EXPECT_EQ(text_of(to + "/load-cold/runai.txt"), "A=1\n");
  EXPECT_EQ(text_of(to + "/profile.json"), "{}\n");
  const std::vector<Export> second = {{"fio", "save", "fio.ini", "new\n", {}}};
  const auto kept = ExportFiles(to, false).write(second);
  ASSERT_THAT(kept, SizeIs(1));
  EXPECT_THAT(kept[0], HasSubstr("--force"));
  EXPECT_EQ(text_of(to + "/save/fio.ini"), "old\n");
  EXPECT_THAT(ExportFiles(to, true).write(second)[0], HasSubstr("wrote"));
  EXPECT_EQ(text_of(to + "/save/fio.ini"), "new\n");
}

TEST(ExportFiles, AProfileKeepsTheTasksThatTheNewOneLacks) {
  const test::TestDirectory directory;
  const std::string name = directory.name() + "/profile.json";
  const auto write = [&](const Profile& profile) {
    static_cast<void>(
        ExportFiles(directory.name(), true).write({{"tzmark", "all", "profile.json", serialize(profile), {}}}));
    return load_profile(name);
  };
  const ProfileSettings one{.threads = 1}, two{.threads = 2}, three{.threads = 3};
  write({"tzmark tune /data", one, one, one});
  EXPECT_EQ(write({"tzmark tune /data", two, {}, {}}), (Profile{"tzmark tune /data", two, one, one}));
  // The settings of another storage do not mix with it.
  EXPECT_EQ(write({"tzmark tune /other", {}, {}, three}), (Profile{"tzmark tune /other", {}, {}, three}));
  std::filesystem::resize_file(name, 0);
  EXPECT_EQ(write({"tzmark tune /data", {}, two, {}}), (Profile{"tzmark tune /data", {}, two, {}}));
}

TEST(ExportFiles, NeedADirectory) {
  const test::TestDirectory directory;
  open_file(directory.name() + "/file", OpenMode::kCreate);
  EXPECT_THROW(ExportFiles(directory.name() + "/file", false), Error);
}

TEST(Interruption, TheFirstSignalIsAMarkAndTheSecondIsAsBefore) {
  static volatile sig_atomic_t seen = 0;
  struct sigaction before {
  }, ours{};
  ours.sa_handler = [](int) { seen = seen + 1; };
  ::sigaction(SIGINT, &ours, &before);
  {
    const Interruption interruption;
    EXPECT_EQ(Interruption::number(), 0);
    EXPECT_NO_THROW(Interruption::check());
    ::raise(SIGINT);
    EXPECT_EQ(Interruption::number(), SIGINT);
    EXPECT_THROW(Interruption::check(), Interrupted);
    EXPECT_EQ(seen, 0);
    // One request may arrive twice.
    ::raise(SIGINT);
    EXPECT_EQ(seen, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    ::raise(SIGINT);
    EXPECT_EQ(seen, 1);
  }
  {
    const Interruption again;
    EXPECT_EQ(Interruption::number(), 0);
  }
  ::raise(SIGINT);
  EXPECT_EQ(seen, 2);
  ::sigaction(SIGINT, &before, nullptr);
}

// 100 completions per second, which a limit lets pass in bursts of ten.
TEST(DeviceLoad, RateOfBurstsIsThatOfTheLimit) {
  for (int phase = 0; phase < 100; phase += 7) {
    std::vector<std::chrono::nanoseconds> completions;
    for (int i = 0; i < 400; ++i) completions.push_back(std::chrono::milliseconds(i / 10 * 100 + phase + i % 10));
    for (const int length : {500, 1'000, 1'730}) {
      const double rate =
          completion_rate(completions, std::chrono::milliseconds(300), std::chrono::milliseconds(300 + length));
      EXPECT_NEAR(rate, 100, 4) << phase << " " << length;
    }
  }
  EXPECT_EQ(completion_rate({}, std::chrono::seconds(0), std::chrono::seconds(1)), 0);
}

TEST(DeviceLoad, MovesBlocksOfTheFileAndEndsInTime) {
  const test::TestDirectory directory;
  DeviceLoad load;
  load.file_name = directory.name() + "/file";
  load.io = "pwrite";
  load.block_bytes = 64 << 10;
  load.queue_depth = 4;
  load.threads = 2;
  load.warm_up = std::chrono::milliseconds(10);
  load.time = std::chrono::milliseconds(500);
  const std::vector<std::byte> zeros(1 << 20);
  open_file(load.file_name, OpenMode::kCreate)->write_at(0, std::span(zeros));
  EXPECT_GT(measure_device(load), 0);
  EXPECT_EQ(test::read_whole(load.file_name), zeros);
  load.writes = true;
  EXPECT_GT(measure_device(load), 0);
  EXPECT_EQ(std::filesystem::file_size(load.file_name), zeros.size());
  EXPECT_NE(test::read_whole(load.file_name), zeros);
  load.block_bytes = 2 << 20;
  EXPECT_THROW(static_cast<void>(measure_device(load)), Error);
}

TEST(DeviceLoad, EndsWhenTheCheckThrows) {
  const test::TestDirectory directory;
  DeviceLoad load;
  load.file_name = directory.name() + "/file";
  load.io = "pwrite";
  load.block_bytes = 64 << 10;
  load.time = std::chrono::hours(1);
  const std::vector<std::byte> zeros(1 << 20);
  open_file(load.file_name, OpenMode::kCreate)->write_at(0, std::span(zeros));
  EXPECT_THROW(static_cast<void>(measure_device(load, [] { throw Interrupted(); })), Interrupted);
}

class Meters : public ::testing::Test {
 protected:
  MeterOptions options(TuneTask task) const {
    MeterOptions options;
    options.task = task;
    options.standard = setting_;
    return options;
  }

  const test::TestDirectory directory_;
  Workplace place_{directory_.name()};
  const SharedContent content_ = std::make_shared<TensorContent>(make_workload("mixed", 2 << 20));
  const SharedContent small_ = std::make_shared<TensorContent>(make_workload("mixed", 1 << 20));
  const Setting setting_{"pwrite", 256 << 10, 2, 2, Pages::kHuge};
};

TEST_F(Meters, SampleAllTasks) {
  for (const TuneTask task : {TuneTask::kLoadWarm, TuneTask::kSave}) {
    StorageMeter meter(place_, content_, small_, options(task));
    Setting other = setting_;
    other.block_bytes = 64 << 10;
    for (const Setting& setting : {setting_, other, setting_}) {
      const TuneSample sample = meter.sample(setting);
      EXPECT_GT(sample.seconds_per_byte, 0);
      EXPECT_GT(sample.cpu_seconds_per_byte.value_or(0), 0);
    }
    EXPECT_EQ(meter.samples(), 3);
    EXPECT_GT(meter.cost().count(), 0);
  }
}

TEST_F(Meters, SavesTakeRoomForOneFile) {
  StorageMeter meter(place_, content_, small_, options(TuneTask::kSave));
  Setting setting = setting_;
  for (std::uint64_t block = 64 << 10; block <= 1 << 20; block *= 2) {
    setting.block_bytes = block;
    // The memory of a save is measured after some samples, by one more run.
    for (int i = 0; i < 5; ++i) static_cast<void>(meter.sample(setting));
  }
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(place_.directory())) bytes += entry.file_size();
  EXPECT_LE(bytes, content_->data_bytes() + (1 << 16));
}

TEST_F(Meters, RenewedFilesAreOthers) {
  const auto names = [&] {
    std::vector<std::string> list;
    for (const auto& entry : std::filesystem::directory_iterator(place_.directory())) list.push_back(entry.path());
    std::ranges::sort(list);
    return list;
  };
  std::vector<std::string> first;
  {
    StorageMeter meter(place_, content_, small_, options(TuneTask::kLoadWarm));
    static_cast<void>(meter.sample(setting_));
    first = names();
    meter.renew();
    static_cast<void>(meter.sample(setting_));
    EXPECT_GT(names().size(), first.size());
  }
  for (const std::string& name : first) EXPECT_FALSE(std::filesystem::exists(name)) << name;
}

TEST_F(Meters, RefusedSettingsAreNotAvailable) {
  StorageMeter meter(place_, content_, small_, options(TuneTask::kLoadWarm));
  Setting refused = setting_;
  refused.io = "gpudirect";
  try {
    static_cast<void>(meter.sample(refused));
    GTEST_SKIP() << "this machine has GPUDirect Storage";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::kUnavailable) << error.what();
  }
}

TEST_F(Meters, TheDefaultIsAFullSetting) {
  for (const TuneTask task : {TuneTask::kLoadWarm, TuneTask::kSave}) {
    const Setting standard = default_setting(place_, content_, task);
    EXPECT_FALSE(standard.io.empty());
    EXPECT_NE(standard.io, "auto");
    EXPECT_GT(standard.block_bytes, 0);
    EXPECT_GT(standard.queue_depth, 0);
    EXPECT_GT(standard.threads, 0);
  }
}

}  // namespace
}  // namespace tzmark::bench
