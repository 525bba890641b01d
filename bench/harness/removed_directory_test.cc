// The directory of measured files goes with its content, and nothing else does.
#include "harness/removed_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "testing/files/test_directory.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

namespace fs = std::filesystem;

using ::testing::IsEmpty;

void fill(const fs::path& directory) {
  fs::create_directories(directory / "a/b/c");
  for (const char* const name : {"file", "a/file", "a/b/c/file"}) std::ofstream(directory / name) << "content";
}

TEST(RemovedDirectory, GoesWithItsContent) {
  const test::TestDirectory parent;
  {
    const RemovedDirectory made(parent / "new");
    fill(made.name());
    made.clear();
    EXPECT_TRUE(fs::is_empty(made.name()));
    fill(made.name());
  }
  EXPECT_TRUE(fs::is_empty(parent / "new"));
}

TEST(RemovedDirectory, NeedsADirectory) {
  const test::TestDirectory parent;
  std::ofstream(parent / "file") << "content";
  EXPECT_THROW(RemovedDirectory(parent / "file"), Error);
}

// Ends a child by a signal while the name belongs to the directory of somebody else, or not.
int end_of_child(const std::string& parent, const std::string& foreign) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{};
    ::setrlimit(RLIMIT_CORE, &no_core);
    const RemovedDirectory made(parent);
    fill(made.name());
    if (!foreign.empty()) {
      fs::rename(made.name(), parent + "/moved");
      fs::rename(foreign, made.name());
    }
    ::raise(SIGTERM);
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

TEST(RemovedDirectory, GoesWhenASignalEndsTheProcess) {
  const test::TestDirectory parent;
  EXPECT_EQ(end_of_child(parent.name(), ""), SIGTERM);
  EXPECT_THAT(parent.entries(), IsEmpty());
}

TEST(RemovedDirectory, LeavesWhatHasTakenItsName) {
  for (const bool by_signal : {false, true}) {
    const test::TestDirectory parent;
    const std::string foreign = parent / "foreign";
    fill(foreign);
    if (by_signal) {
      EXPECT_EQ(end_of_child(parent.name(), foreign), SIGTERM);
    } else {
      const RemovedDirectory made(parent.name());
      fill(made.name());
      fs::rename(made.name(), parent / "moved");
      fs::rename(foreign, made.name());
      made.clear();
    }
    EXPECT_TRUE(fs::is_empty(parent / "moved")) << "its own content is removed, wherever it is";
    unsigned left = 0;
    for (const auto& entry : fs::recursive_directory_iterator(parent.name())) {
      if (entry.path().filename() == "file") ++left;
    }
    EXPECT_EQ(left, 3U);
  }
}

}  // namespace
}  // namespace tzmark::bench
