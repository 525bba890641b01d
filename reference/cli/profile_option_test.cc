// --profile: a command takes the settings of the file, options that are given win, and mistakes end with status 2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "testing/files/command.h"
#include "testing/files/tensors_files.h"

namespace tzmark {
namespace {

using test::CliTest;
using test::Result;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

// A path that is not there shows which settings a command has taken: gpudirect without a GPU.
class ProfileOptionTest : public CliTest {
 protected:
  Result run(Words words) const {
    return CliTest::run(std::move(words), "/dev/null", [] { ::setenv("CUDA_VISIBLE_DEVICES", "", 1); });
  }
  std::string profile(const std::string& tasks) const {
    return write("profile.json", R"({"schema_version": 1, "kind": "profile", )" + tasks + "}");
  }

  const std::string plain_ = write("plain.tensors", test::three_tensors().write());
  const std::string loads_to_gpu_ = R"("load-warm": {"io": "gpudirect"}, "load-cold": {"io": "gpudirect"})";
};

TEST_F(ProfileOptionTest, IsTakenByEveryCommandWithIo) {
  const std::string name = profile(loads_to_gpu_ + R"(, "save": {"io": "gpudirect"})");
  const std::string segments = path("segments.tensors");
  ASSERT_EQ(run({"convert", plain_, segments, "--layout", "v5-segments"}).status, 0);
  const std::vector<Words> lines = {{"verify", plain_},
                                    {"inspect", plain_},
                                    {"inspect", plain_, "--bytes"},
                                    {"dump", plain_},
                                    {"extract", plain_, "b"},
                                    {"convert", plain_, path("out")},
                                    {"append", segments, plain_},
                                    {"edit", segments, "--rename", "b", "c"}};
  for (const Words& words : lines) {
    Words with = words;
    with.insert(with.end(), {"--profile", name});
    const Result result = run(with);
    EXPECT_NE(result.status, 0) << words[0];
    EXPECT_THAT(result.err, HasSubstr("gpudirect")) << words[0];
    with.insert(with.end(), {"--io", "pwrite"});
    if (words[0] == "append") continue;  // three_tensors are there already
    EXPECT_EQ(run(with).status, 0) << words[0];
  }
}

TEST_F(ProfileOptionTest, SavesWithTheSettingsForSaving) {
  const std::string name = profile(R"("save": {"io": "gpudirect"})");
  EXPECT_EQ(run({"verify", plain_, "--profile", name}).status, 0);
  EXPECT_NE(run({"convert", plain_, path("out"), "--profile", name}).status, 0);
  const std::string other = profile(R"("save": {"io": "direct", "block_bytes": 4096, "queue_depth": 2, "threads": 1})");
  EXPECT_EQ(run({"convert", plain_, path("out"), "--profile", other}).status, 0);
  EXPECT_EQ(run({"verify", path("out")}).status, 0);
}

TEST_F(ProfileOptionTest, KeepsTheChunksOfEncryptedFiles) {
  const std::string key(64, '5');
  const std::string small = profile(R"("save": {"block_bytes": 4096}, "load-warm": {"block_bytes": 4096})");
  ASSERT_EQ(run({"convert", plain_, path("sealed"), "--encrypt-key-hex", key, "--profile", small}).status, 0);
  EXPECT_EQ(run({"verify", path("sealed"), "--key-hex", key, "--profile", small}).status, 0);
}

// Bytes that this process and those that it has waited for have read; 0 if the kernel does not count them.
std::uint64_t bytes_read() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  std::uint64_t value = 0;
  counters >> name >> value;
  return name == "rchar:" ? value : 0;
}

TEST_F(ProfileOptionTest, ReadsNoWholeMessageForEachPart) {
  constexpr std::uint64_t kBytes = 8 << 20;  // four messages
  const std::string key(64, '5');
  test::Content content;
  content.add({"large"}, "uint8", {kBytes});
  const std::string plain = write("large.tensors", content.write());
  const std::uint64_t before_all = bytes_read();
  ASSERT_EQ(run({"convert", plain, path("sealed"), "--encrypt-key-hex", key}).status, 0);
  if (bytes_read() - before_all < kBytes) GTEST_SKIP() << "the kernel does not count what child processes read";
  const std::string small = profile(
      R"("load-warm": {"block_bytes": 65536}, "load-cold": {"block_bytes": 65536}, "save": {"block_bytes": 65536})");
  for (const Words& words : {Words{"verify", path("sealed")}, Words{"convert", path("sealed"), path("out")}}) {
    Words with = words;
    with.insert(with.end(), {"--key-hex", key, "--profile", small, "--io", "pwrite"});
    const std::uint64_t before = bytes_read();
    ASSERT_EQ(run(with).status, 0) << words[0];
    const std::uint64_t of_command = bytes_read() - before;
    EXPECT_GE(of_command, kBytes) << words[0];
    // Once to authenticate, and parts that end inside of a block read it again.
    EXPECT_LT(of_command, 4 * kBytes) << words[0];
  }
}

TEST_F(ProfileOptionTest, IsTakenByCheckpoints) {
  const std::string name = profile(R"("save": {"io": "gpudirect"})");
  const Words simulate = {"checkpoint", "simulate", path("run"), "--profile", name};
  EXPECT_THAT(run(simulate).err, HasSubstr("gpudirect"));
}

TEST_F(ProfileOptionTest, MistakesNameTheFile) {
  const std::string name = profile(R"("save": {"io": "nowhere"})");
  const Result wrong = run({"verify", plain_, "--profile", name});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_EQ(wrong.out, "");
  EXPECT_THAT(wrong.err, HasSubstr(name + ": error TZE-USE-001: not a profile: io of save: there is no I/O path"));
  const Result absent = run({"verify", plain_, "--profile", path("absent")});
  EXPECT_EQ(absent.status, 3);
  EXPECT_THAT(absent.err, HasSubstr(path("absent")));
}

}  // namespace
}  // namespace tzmark
