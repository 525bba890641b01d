// Tests of the FIFO that a thread fills.
#include "runner/fifo.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>

#include "runner/errors.h"
#include "runner/scratch_directory.h"

namespace tzmark::conformance {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string read_through(int fd) {
  std::string text;
  std::array<char, 1000> block;
  for (ssize_t got = 0; (got = ::read(fd, block.data(), block.size())) > 0;) text.append(block.data(), got);
  return text;
}

// More than a pipe holds, little, and nothing.
TEST(Fifo, GivesItsContentAndThenItsEnd) {
  for (const std::size_t size : {300000u, 10u, 0u}) {
    const ScratchDirectory directory;
    std::string content(size, 'a');
    for (std::size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 7);
    const Fifo fifo(directory.path() / "f", bytes_of(content));
    const int fd = ::open(fifo.path().c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(::lseek(fd, 0, SEEK_SET), -1);
    EXPECT_EQ(read_through(fd), content);
    ::close(fd);
  }
}

TEST(Fifo, EndsWithoutAReaderAndWithOneThatLeaves) {
  const std::string content(300000, 'a');
  const auto began = std::chrono::steady_clock::now();
  const ScratchDirectory directory;
  { const Fifo unread(directory.path() / "unread", bytes_of(content)); }
  {
    const Fifo fifo(directory.path() / "left", bytes_of(content));
    const int fd = ::open(fifo.path().c_str(), O_RDONLY | O_CLOEXEC);
    char first = 0;
    EXPECT_EQ(::read(fd, &first, 1), 1);
    ::close(fd);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  EXPECT_THROW(Fifo(directory.path() / "none/f", bytes_of(content)), EnvironmentError);
}

}  // namespace
}  // namespace tzmark::conformance
