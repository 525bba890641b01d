// Tests of copies of a mapping whose file another process truncates.
#include "io/mapping_copy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "testing/caught.h"
#include "testing/files/path_test.h"

namespace tzmark {
namespace {

using test::Bytes;
using test::caught;
using test::random_bytes;

constexpr std::size_t kPages = 8;

std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

// A file of some pages in a mapping that can be read and written.
class BusErrorsTest : public ::testing::Test {
 protected:
  BusErrorsTest() {
    test::write_whole(name_, content_);
    fd_ = ::open(name_.c_str(), O_RDWR | O_CLOEXEC);
    mapped_ = static_cast<std::byte*>(::mmap(nullptr, content_.size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
  }
  ~BusErrorsTest() override {
    ::munmap(mapped_, content_.size());
    ::close(fd_);
  }

  const test::TestDirectory directory_;
  const std::string name_ = directory_ / "file";
  const Bytes content_ = random_bytes(kPages * page(), 1);
  int fd_ = -1;
  std::byte* mapped_ = nullptr;
};

class MappingCopyTest : public BusErrorsTest {
 protected:
  MappingCopyTest() { catch_bus_errors(); }
};

TEST_F(MappingCopyTest, CopiesBothWays) {
  Bytes back(content_.size());
  EXPECT_EQ(copy_from_mapping(back.data(), mapped_, back.size()), std::nullopt);
  EXPECT_EQ(back, content_);
  const Bytes other = random_bytes(content_.size(), 2);
  EXPECT_EQ(copy_to_mapping(mapped_, other.data(), other.size()), std::nullopt);
  EXPECT_EQ(test::read_whole(name_), other);
}

TEST_F(MappingCopyTest, SaysWhereTheFileEnds) {
  Bytes back(content_.size());
  ASSERT_EQ(::truncate(name_.c_str(), static_cast<off_t>(3 * page())), 0);
  for (int i = 0; i < 2; ++i) {
    const auto fault = copy_from_mapping(back.data(), mapped_ + page(), 7 * page());
    ASSERT_TRUE(fault.has_value());
    EXPECT_GE(*fault, 2 * page());
    EXPECT_LT(*fault, 7 * page());
    EXPECT_TRUE(copy_to_mapping(mapped_ + 3 * page(), back.data(), 1).has_value());
    EXPECT_EQ(copy_from_mapping(back.data(), mapped_, 3 * page()), std::nullopt) << "what is there is copied";
  }
}

TEST_F(MappingCopyTest, EveryThreadHasItsOwnFaults) {
  ASSERT_EQ(::truncate(name_.c_str(), static_cast<off_t>(page())), 0);
  std::atomic<int> wrong = 0;
  test::on_four_threads([&](int number) {
    Bytes back(page());
    const auto at = static_cast<std::size_t>(number);
    for (int i = 0; i < 1'000; ++i) {
      if (copy_from_mapping(back.data(), mapped_ + at * page(), page()).has_value() != (at != 0)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_F(MappingCopyTest, OtherFaultsEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ASSERT_EQ(::truncate(name_.c_str(), 0), 0);
  EXPECT_DEATH({ *const_cast<volatile std::byte*>(mapped_) = std::byte{1}; }, "");
  EXPECT_DEATH({ ::raise(SIGBUS); }, "");
}

std::atomic<int> others = 0;

// What others do with the signal goes on as before, each time, and copies stay guarded.
TEST_F(BusErrorsTest, OfOthersGoToTheirHandlers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ASSERT_EQ(::truncate(name_.c_str(), 0), 0);
  const auto signals_with = [&](const struct sigaction& before) {
    ::sigaction(SIGBUS, &before, nullptr);
    catch_bus_errors();
    std::byte back{};
    for (int i = 0; i < 3; ++i) {
      ::raise(SIGBUS);
      if (!copy_from_mapping(&back, mapped_, 1)) std::_Exit(100);
    }
    std::_Exit(others);
  };
  struct sigaction before {};
  before.sa_handler = [](int) { others += 1; };
  EXPECT_EXIT(signals_with(before), ::testing::ExitedWithCode(3), "");
  before.sa_flags = SA_SIGINFO;
  before.sa_sigaction = [](int, siginfo_t* information, void*) { others += information->si_code == SI_TKILL ? 2 : 0; };
  EXPECT_EXIT(signals_with(before), ::testing::ExitedWithCode(6), "");
  before.sa_flags = 0;
  before.sa_handler = SIG_IGN;
  EXPECT_EXIT(signals_with(before), ::testing::ExitedWithCode(0), "");
}

// A handler for one signal, which does not mend the fault: the second time, there is none.
TEST_F(BusErrorsTest, AHandlerForOneSignalIsCalledOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ASSERT_EQ(::truncate(name_.c_str(), 0), 0);
  const auto fault_with = [&](int flags) {
    struct sigaction before {};
    before.sa_flags = flags;
    before.sa_handler = [](int) {
      if (++others > 1) std::_Exit(2);
    };
    ::sigaction(SIGBUS, &before, nullptr);
    catch_bus_errors();
    *const_cast<volatile std::byte*>(mapped_) = std::byte{1};
  };
  EXPECT_EXIT(fault_with(static_cast<int>(SA_RESETHAND)), ::testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(fault_with(0), ::testing::ExitedWithCode(2), "") << "another handler is called each time";
}

// Another thread truncates the file and fills it again, so that pages go between the looks at them and the copies.
TEST_F(MappingCopyTest, AFileThatShrinksIsAnErrorOfThePath) {
  std::atomic<bool> is_changed = true;
  const std::jthread changer([&](const std::stop_token& stop) {
    while (is_changed && !stop.stop_requested()) {
      is_changed =
          ::ftruncate(fd_, static_cast<off_t>(page())) == 0 && ::pwrite(fd_, content_.data(), content_.size(), 0) >= 0;
    }
  });
  const auto file = open_file(name_, OpenMode::kRead, "mmap");
  int right = 0, errors = 0;
  for (int i = 0; i < 20'000 || right == 0 || errors == 0; ++i) {
    ASSERT_TRUE(is_changed) << "the other thread failed to change the file";
    Bytes back(content_.size());
    const test::Caught result = caught([&] { file->read_at(0, std::span(back)); });
    if (!result.code) {
      ++right;
      // Bytes that the file had, or the zeros of one that has just grown.
      for (std::size_t at = 0; at < back.size(); at += page()) {
        ASSERT_TRUE(back[at] == content_[at] || back[at] == std::byte{0});
      }
      continue;
    }
    ++errors;
    ASSERT_TRUE(result.code == ErrorCode::kFileChanged || result.code == ErrorCode::kReadFailed) << result;
    ASSERT_TRUE(result.offset.has_value()) << result;
  }
}

}  // namespace
}  // namespace tzmark
