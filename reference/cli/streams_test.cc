// Standard streams that are closed, full, abandoned or non-blocking; pipes and devices in place of files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "testing/files/command.h"
#include "testing/files/tensors_files.h"

namespace tzmark {
namespace {

using test::CliTest;
using test::Result;
using test::slurp;
using ::testing::AnyOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

void redirect(int fd, const char* name) { ::dup2(::open(name, O_WRONLY), fd); }

// Makes a command that waits forever fail its test.
void end_in_a_minute() { ::alarm(60); }

class StreamsTest : public CliTest {
 protected:
  static std::vector<std::byte> damaged() {
    auto bytes = test::three_tensors().write();
    bytes[bytes.size() - 9] ^= std::byte{1};
    return bytes;
  }

  // Runs the command with non-blocking input and output, and writes and reads them slowly.
  Result run_slowly(std::vector<std::string> arguments, const std::string& input) const {
    std::array<int, 2> in{}, out{};
    EXPECT_EQ(::pipe2(in.data(), O_CLOEXEC | O_NONBLOCK), 0);
    EXPECT_EQ(::pipe2(out.data(), O_CLOEXEC | O_NONBLOCK), 0);
    ::fcntl(in[1], F_SETFL, 0);
    ::fcntl(out[0], F_SETFL, 0);
    std::string received;
    std::jthread writer([&] {
      for (std::size_t at = 0; at < input.size(); at += 1 << 20) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        const std::string piece = input.substr(at, 1 << 20);
        if (::write(in[1], piece.data(), piece.size()) < 0) break;
      }
      ::close(in[1]);
    });
    std::jthread reader([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      std::string block(1 << 16, '\0');
      for (ssize_t moved = 0; (moved = ::read(out[0], block.data(), block.size())) > 0;) {
        received.append(block, 0, static_cast<std::size_t>(moved));
      }
    });
    Result result = run(std::move(arguments), "/dev/null", [&] {
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      end_in_a_minute();
    });
    for (const int fd : {in[0], out[1]}) ::close(fd);
    reader.join();
    ::close(out[0]);
    result.out = received;
    return result;
  }

  const std::string good_ = write("good", test::three_tensors().write());
};

TEST_F(StreamsTest, IgnoresAFullOrAbandonedStderr) {
  const std::string bad = write("bad", damaged());
  const auto full = [] { redirect(STDERR_FILENO, "/dev/full"); };
  const auto abandoned = [] {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return;
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
  };
  for (const std::function<void()>& stderr_is : std::vector<std::function<void()>>{full, abandoned}) {
    EXPECT_EQ(run({"verify", bad}, "/dev/null", stderr_is).status, 1);
    EXPECT_EQ(run({"verify", good_, "--progress"}, "/dev/null", stderr_is).status, 0);
    EXPECT_EQ(run({"verfy"}, "/dev/null", stderr_is).status, 2);
  }
}

TEST_F(StreamsTest, DoesNotMistakeClosedStreamsForFiles) {
  ASSERT_EQ(run({"convert", good_, path("expected"), "--layout", "v4"}).status, 0);
  for (const std::vector<int>& closed : std::vector<std::vector<int>>{{0}, {1}, {2}, {1, 2}, {0, 1, 2}}) {
    const auto close_them = [&] {
      for (const int fd : closed) ::close(fd);
    };
    const Result result = run({"convert", good_, path("out"), "--layout", "v4", "--progress"}, "/dev/null", close_them);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(slurp(path("out")), slurp(path("expected")));
  }
}

TEST_F(StreamsTest, FailsIfOutputCannotBeWritten) {
  const auto full = [] { redirect(STDOUT_FILENO, "/dev/full"); };
  const auto closed = [] { ::close(STDOUT_FILENO); };
  for (const std::function<void()>& stdout_is : std::vector<std::function<void()>>{full, closed}) {
    for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"dump", good_},
                                                                                       {"verify", good_},
                                                                                       {"inspect", good_},
                                                                                       {"extract", good_, "b"},
                                                                                       {"convert", good_, "-"},
                                                                                       {"--help"},
                                                                                       {"verify", "--help"},
                                                                                       {"--version"}}) {
      const Result result = run(words, "/dev/null", stdout_is);
      EXPECT_EQ(result.status, 3) << words[0];
      EXPECT_THAT(result.err, HasSubstr("tzmark: error TZE-ENV-003: cannot write to standard output: ")) << words[0];
    }
  }
}

// The signal of the limit would end the process without a word.
TEST_F(StreamsTest, NamesTheLimitOfFileSizes) {
  const auto limited = [] {
    const rlimit bytes_max{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &bytes_max);
  };
  test::Content content;
  content.add({"large"}, "uint8", {100'000});
  const std::string large = write("large", content.write());
  const auto expect_limit = [](const Result& result) {
    EXPECT_EQ(result.status, 3);
    EXPECT_THAT(result.err,
                ::testing::EndsWith("File too large: this process may write files of at most 1000 bytes (ulimit -f, "
                                    "RLIMIT_FSIZE)\n"));
  };
  for (const char* const io : {"auto", "pwrite", "buffered", "mmap", "direct", "uring"}) {
    SCOPED_TRACE(io);
    const Result result = run({"convert", large, path("limited"), "--io", io}, "/dev/null", limited);
    if (result.status == 4) continue;
    expect_limit(result);
    EXPECT_FALSE(fs::exists(path("limited")));
  }
  expect_limit(run({"convert", large, "-"}, "/dev/null", limited));
  expect_limit(run({"extract", large, "large"}, "/dev/null", limited));
}

// Otherwise a stream without an end would fill the disk first.
TEST_F(StreamsTest, LooksAtTheBeginningOfAStreamBeforeItCopiesTheRest) {
  const std::string zeros = write("zeros", std::string(1, '\0'));
  fs::resize_file(zeros, std::uint64_t{4} << 30);
  const auto limited = [] {
    const rlimit bytes_max{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &bytes_max);
  };
  const Result result = run({"verify", "-"}, zeros, limited);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("the file begins with zeros"));
}

TEST_F(StreamsTest, NamesAMissingTemporaryDirectory) {
  const auto nowhere = [] { ::setenv("TMPDIR", "/nowhere", 1); };
  const Result result = run({"verify", "-"}, good_, nowhere);
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, HasSubstr("no temporary file in /nowhere, which TMPDIR names: "));
  EXPECT_THAT(result.err, HasSubstr("No such file or directory; set TMPDIR to a directory that can be written"));
}

TEST_F(StreamsTest, WaitsForNonBlockingPipes) {
  test::Content content;
  content.add({"large"}, "uint8", {3 << 20});
  const auto bytes = content.write();
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Result result = run_slowly({"convert", "-", "-"}, text);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.out == text) << result.out.size();
}

TEST_F(StreamsTest, RejectsPipesAndDevicesInPlaceOfFiles) {
  const std::string pipe = path("pipe"), shard = path("pipe.safetensors"), segments = path("segments");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(shard.c_str(), 0600), 0);
  ASSERT_EQ(run({"convert", good_, segments, "--layout", "v5-segments"}).status, 0);
  const std::string index = write("pipe.safetensors.index.json",
                                  R"({"metadata": {"total_size": 4}, "weight_map": {"a": "pipe.safetensors"}})");
  for (const std::string& name : {pipe, std::string("/dev/zero")}) {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"verify", name},
                                               {"dump", name, "--io", "buffered"},
                                               {"inspect", name, "--bytes"},
                                               {"edit", name, "--drop", "b"},
                                               {"append", name, good_},
                                               {"append", segments, "--raw", "w", "uint8", "1", name},
                                               {"convert", good_, path("out"), "--encrypt-key-file", name},
                                               {"verify", good_, "--passphrase-file", name},
                                               {"verify", good_, "--data-file", name}}) {
      const Result result = run(words, "/dev/null", end_in_a_minute);
      EXPECT_THAT(result.status, AnyOf(2, 3)) << words[0] << " " << name << ": " << result.err;
    }
  }
  for (const std::string& name : {shard, index}) {
    const Result result = run({"verify", name}, "/dev/null", end_in_a_minute);
    EXPECT_EQ(result.status, 3) << name;
    EXPECT_THAT(result.err, HasSubstr("it is a pipe")) << name;
  }
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(StreamsTest, ReadsAKeyFromAPipe) {
  WriteOptions options;
  options.encrypt = test::with_key();
  const std::string sealed = write("sealed", test::three_tensors().write(options));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ASSERT_EQ(::write(ends[1], test::kKeyHex.data(), test::kKeyHex.size()), static_cast<ssize_t>(test::kKeyHex.size()));
  ::close(ends[1]);
  const Result result = run({"verify", sealed, "--key-file", "/dev/fd/9"}, "/dev/null", [&] {
    ::dup2(ends[0], 9);
    end_in_a_minute();
  });
  ::close(ends[0]);
  EXPECT_EQ(result.status, 0) << result.err;
}

}  // namespace
}  // namespace tzmark
