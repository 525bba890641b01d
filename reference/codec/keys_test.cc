// Keys and passphrases from files: what is a secret, and that nothing else is taken for one or waited for.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "testing/caught.h"
#include "testing/files/tensors_files.h"
#include "testing/files/test_directory.h"
#include "tzmark/crypto.h"
#include "tzmark/error.h"
#include "tzmark/writer.h"

namespace tzmark {
namespace {

using test::caught;
using test::failure;
using ::testing::HasSubstr;

class KeysTest : public ::testing::Test {
 protected:
  std::string write(const std::string& content) const {
    std::ofstream(directory_ / "secret", std::ios::binary) << content;
    return directory_ / "secret";
  }

  const test::TestDirectory directory_;
};

std::string hex_of(const Key& key) {
  std::string hex;
  for (std::size_t i = 0; i < kKeyBytes; ++i) hex += fmt::format("{:02x}", key.data()[i]);
  return hex;
}

// What read makes of a pipe into which a writer puts the content a little later, piece by piece. Its name is that of a
// descriptor, as of <(command) in a shell.
template <typename Read>
auto from_pipe(const std::string& content, Read&& read) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw std::runtime_error("pipe2");
  std::jthread writer([&] {
    for (std::size_t at = 0; at < content.size(); at += 1000) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const std::string piece = content.substr(at, 1000);
      EXPECT_EQ(::write(ends[1], piece.data(), piece.size()), static_cast<ssize_t>(piece.size()));
    }
    ::close(ends[1]);
  });
  const auto result = caught([&] { read(fmt::format("/dev/fd/{}", ends[0])); });
  writer.join();
  ::close(ends[0]);
  return result;
}

TEST_F(KeysTest, AKeyIsRawOrHex) {
  const std::string raw = "0123456789abcdef0123456789abcd\n\n";
  EXPECT_EQ(hex_of(key_from_file(write(raw))), "3031323334353637383961626364656630313233343536373839616263640a0a");
  for (const std::string& text : {std::string(test::kKeyHex), fmt::format(" \t{}\r\n", test::kKeyHex)}) {
    EXPECT_EQ(hex_of(key_from_file(write(text))), test::kKeyHex);
  }
  for (const std::string& text : {std::string(), std::string("\n"), std::string(31, 'x'), std::string(63, 'a'),
                                  std::string(64, 'g'), std::string(4097, 'a')}) {
    EXPECT_EQ(caught([&] { key_from_file(write(text)); }), failure(ErrorCode::kUsage)) << text;
  }
  EXPECT_EQ(caught([] { key_from_hex(""); }), failure(ErrorCode::kUsage));
}

TEST_F(KeysTest, APassphraseLosesOneLineEnd) {
  EXPECT_EQ(passphrase_from_file(write("open sesame\n")).text(), "open sesame");
  EXPECT_EQ(passphrase_from_file(write("open sesame\r\n")).text(), "open sesame");
  EXPECT_EQ(passphrase_from_file(write("\n\n")).text(), "\n");
  EXPECT_EQ(passphrase_from_file(write(" ")).text(), " ");
}

TEST_F(KeysTest, AnEmptyPassphraseIsNone) {
  for (const std::string& text : {std::string(), std::string("\n"), std::string("\r\n")}) {
    EXPECT_EQ(caught([&] { passphrase_from_file(write(text)); }), failure(ErrorCode::kUsage)) << text;
  }
  for (const std::string& text :
       {std::string(), std::string(" "), std::string("\n"), std::string(1, '\0'), std::string("\xEF\xBB\xBF\n")}) {
    WriteOptions options;
    options.encrypt = EncryptOptions{.key = Passphrase(text), .opslimit = 1, .memlimit = 8192};
    EXPECT_EQ(caught([&] { test::three_tensors().write(options); }), failure(ErrorCode::kCryptBlankPassphrase)) << text;
  }
}

TEST_F(KeysTest, NothingButFilesIsReadAndNothingIsWaitedFor) {
  const std::string pipe = directory_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
  for (const std::string& name : {pipe, directory_.name(), std::string("/dev/zero"), std::string("/dev/null")}) {
    EXPECT_EQ(caught([&] { key_from_file(name); }), failure(ErrorCode::kOpenFailed)) << name;
    EXPECT_EQ(caught([&] { passphrase_from_file(name); }), failure(ErrorCode::kOpenFailed)) << name;
  }
}

TEST_F(KeysTest, APipeOfTheShellIsReadToItsEnd) {
  std::string found;
  EXPECT_EQ(
      from_pipe(std::string(test::kKeyHex), [&](const std::string& name) { found = hex_of(key_from_file(name)); }),
      test::Caught{});
  EXPECT_EQ(found, test::kKeyHex);
  EXPECT_EQ(from_pipe(std::string(2500, 'x') + "\n",
                      [&](const std::string& name) { found = passphrase_from_file(name).text(); }),
            test::Caught{});
  EXPECT_EQ(found, std::string(2500, 'x'));
  EXPECT_EQ(from_pipe("", [](const std::string& name) { passphrase_from_file(name); }), failure(ErrorCode::kUsage));
  EXPECT_EQ(from_pipe(std::string(5000, 'a'), [](const std::string& name) { key_from_file(name); }),
            failure(ErrorCode::kUsage));
}

}  // namespace
}  // namespace tzmark
