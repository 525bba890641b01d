// Libraries are preloaded from directories of any name.
#include "runner/preload.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "runner/errors.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

// A variable of the environment, while the object lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

fs::path library_in(const ScratchDirectory& directory, const std::string& name) {
  const fs::path library = directory.path() / name / "library.so";
  fs::create_directories(library.parent_path());
  std::ofstream(library) << "code";
  return library;
}

TEST(Preload, TakesAPathAsItIs) {
  const ScratchDirectory directory;
  const fs::path library = library_in(directory, "bäuer");
  EXPECT_EQ(Preload(library).path(), library);
}

TEST(Preload, LinksWhatTheLoaderWouldSplit) {
  const ScratchDirectory directory;
  for (const char* const name : {"a builder", "a:b", "$LIB"}) {
    const fs::path library = library_in(directory, name);
    fs::path link;
    {
      const Preload preload(library);
      link = preload.path();
      EXPECT_TRUE(can_be_preloaded(link));
      EXPECT_EQ(fs::canonical(link), fs::canonical(library));
    }
    EXPECT_FALSE(fs::exists(fs::symlink_status(link)));
  }
}

TEST(Preload, RefusesTemporaryFilesThatTheLoaderWouldSplit) {
  const ScratchDirectory directory;
  const fs::path library = library_in(directory, "a builder");
  const Variable temporary("TMPDIR", library.parent_path());
  EXPECT_THROW(Preload{library}, EnvironmentError);
}

TEST(Preload, KeepsWhatIsPreloadedAlready) {
  const Variable others("LD_PRELOAD", "/x/other.so");
  EXPECT_EQ(preload_setting("/x/library.so"), "LD_PRELOAD=/x/library.so:/x/other.so");
}

TEST(Preload, KeepsOtherOptionsOfTheSanitizer) {
  const Variable others("ASAN_OPTIONS", "abort_on_error=1");
  EXPECT_EQ(sanitizer_setting(), "ASAN_OPTIONS=abort_on_error=1:verify_asan_link_order=0");
}

}  // namespace
}  // namespace tzmark::conformance
