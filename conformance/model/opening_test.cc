// A machine that cannot derive a key is not taken for a file that is wrong.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "model/corpus_files.h"

namespace tzmark::conformance::model {
namespace {

constexpr std::uint64_t kMemlimitBytes = std::uint64_t{1} << 30;

// While it lives, the process gets half of the memory that a derivation is told to take.
class LittleMemory {
 public:
  LittleMemory() {
    std::uint64_t pages = 0;
    if (!(std::ifstream("/proc/self/statm") >> pages)) throw std::runtime_error("the size of the process is unknown");
    if (getrlimit(RLIMIT_AS, &before_) != 0) throw std::runtime_error("the limit of memory cannot be read");
    rlimit little = before_;
    little.rlim_cur = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) + kMemlimitBytes / 2;
    if (setrlimit(RLIMIT_AS, &little) != 0) throw std::runtime_error("the memory cannot be limited");
  }
  ~LittleMemory() { setrlimit(RLIMIT_AS, &before_); }
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;

 private:
  rlimit before_{};
};

TEST(Opening, ThrowsWhereMemoryIsTooLittleForAKey) {
  const std::vector<CorpusCase> cases = corpus_cases();
  const auto item =
      std::find_if(cases.begin(), cases.end(), [](const auto& c) { return c.id == "passphrase-minimum"; });
  ASSERT_NE(item, cases.end());
  std::vector<std::byte> file = bytes_of(item->file);
  const Description right = describe(file, item->secret);
  EXPECT_TRUE(right.defects.empty());
  const auto memlimit = std::find_if(right.fields.begin(), right.fields.end(),
                                     [](const Field& field) { return field.name == "memlimit"; });
  ASSERT_NE(memlimit, right.fields.end());
  for (std::uint64_t i = 0; i < memlimit->size; ++i) {
    file[memlimit->offset + i] = static_cast<std::byte>(kMemlimitBytes >> 8 * i & 0xff);
  }
  const LittleMemory little;
  EXPECT_THROW(describe(file, item->secret), std::runtime_error);
}

}  // namespace
}  // namespace tzmark::conformance::model
