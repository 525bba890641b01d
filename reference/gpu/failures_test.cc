// What becomes of the two calls when libcuda fails: one clear error, nothing leaked, and no key on the GPU.
#include <gmock/gmock.h>
#include <sodium.h>

#include <functional>

#include "gpu/read_kernel.h"
#include "gpu/work.h"
#include "testing/caught.h"
#include "testing/gpu/gpu_test.h"
#include "tzmark/error.h"

namespace tzmark::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class FakeFailures : public ::testing::Test {
 protected:
  FakeFailures() : memory_(on_device(random_bytes(1'000, 1))) {
    std::ranges::copy(random_bytes(key_.size(), 2), key_.begin());
    // Loads kernels, which is done once.
    EXPECT_EQ(why_no_device_compute(), "");
    free_kept();
    orders().secret = key_.data();
    orders().secret_bytes = key_.size();
    orders().secrets_left = 0;
  }
  ~FakeFailures() override {
    orders().fail_call = -1;
    orders().forgets_launches = false;
    // Shows whether a secret is left there.
    free_kept();
    orders().secret = nullptr;
  }

  static FakeCudaOrders& orders() { return fake_orders(); }

  void compute_crc() const {
    const std::array ranges = {ConstBuffer(memory_.buffer()), ConstBuffer(memory_.buffer().sub(1, 10))};
    static_cast<void>(crc32_on_device(ranges));
  }
  void open() const {
    const std::array<SealedMessage, 2> messages = {SealedMessage{memory_.buffer().sub(0, 500), {}, {}},
                                                   SealedMessage{memory_.buffer().sub(500, 500), {}, {}}};
    EXPECT_EQ(open_on_device(key_, messages), (std::vector<std::size_t>{0, 1}));
  }

  // Lets each call of libcuda fail in turn, until none is left. Returns how many did.
  static int fail_each(const std::function<void()>& action) {
    const std::int64_t allocations = orders().allocations, streams = orders().streams;
    int failed = 0;
    for (bool done = false; !done; ++failed) {
      orders().calls = 0;
      orders().fail_call = failed;
      std::string message;
      try {
        action();
        done = orders().calls <= failed;
        EXPECT_TRUE(done) << "call " << failed << " failed without an error";
        done = true;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kResource);
        message = error.message();
        EXPECT_THAT(message, ContainsRegex(kRefusedCall));
      }
      orders().fail_call = -1;
      free_kept();
      EXPECT_EQ(orders().allocations, allocations) << "at call " << failed << ": " << message;
      EXPECT_EQ(orders().streams, streams) << "at call " << failed << ": " << message;
      EXPECT_EQ(orders().secrets_left, 0) << "at call " << failed << ": " << message;
    }
    return failed - 1;
  }

  DeviceMemory memory_;
  std::array<std::byte, 32> key_;
};

// The GPU of the pointer, memory, pinned memory, stream, upload, clear, launch, download, wipe, wait.
TEST_F(FakeFailures, OfCrc32) {
  EXPECT_EQ(fail_each([&] { compute_crc(); }), 10);
}

// One upload more, of key and messages, and four launches.
TEST_F(FakeFailures, OfOpening) {
  EXPECT_EQ(fail_each([&] { open(); }), 14);
}

// An event before and after the launch, each created and recorded, and the time between them.
TEST_F(FakeFailures, OfCrc32WithItsTime) {
  std::chrono::nanoseconds time{};
  const std::array ranges = {ConstBuffer(memory_.buffer())};
  EXPECT_EQ(fail_each([&] { static_cast<void>(crc32_on_device(ranges, &time)); }), 10 + 5);
  EXPECT_EQ(orders().events, 0);
}

TEST_F(FakeFailures, OfReading) {
  const DeviceMemory memory(gpu::kReadTileBytes);
  EXPECT_EQ(fail_each([&] { read_on_device(memory.buffer()); }), 7);
}

// Then the tables do.
TEST_F(FakeFailures, OfTheMatrix) {
  constexpr int kDevices = 32;
  std::int64_t allocations = orders().allocations;
  orders().calls = 0;
  // GPUs of even numbers multiply matrices of bits; the first one's kernels are loaded already.
  ASSERT_EQ(gpu::Kernels::of(2).why_unavailable(), "");
  const std::int64_t calls = orders().calls;
  EXPECT_TRUE(gpu::Kernels::of(2).has_crc32_matrix());
  EXPECT_EQ(orders().allocations, ++allocations);
  // The first call is that of the kernel's attribute.
  ASSERT_LT(2 + 2 * (calls - 1), kDevices);
  for (std::int64_t i = 1; i < calls; ++i) {
    const int device = static_cast<int>(2 + 2 * i);
    orders().calls = 0;
    orders().fail_call = i;
    const gpu::Kernels& kernels = gpu::Kernels::of(device);
    orders().fail_call = -1;
    ASSERT_EQ(kernels.why_unavailable(), "") << i;
    EXPECT_FALSE(kernels.has_crc32_matrix()) << i;
    EXPECT_EQ(orders().allocations, allocations) << i;
    const DeviceMemory memory(1'000, device);
    const std::array range = {ConstBuffer(memory.buffer())};
    static_cast<void>(crc32_on_device(range));
    EXPECT_STREQ(orders().last_kernel, "tzmark_crc32_tables");
    free_kept();
  }
}

TEST_F(FakeFailures, TheFakeSeesAKeyThatStays) {
  { const DeviceMemory memory = on_device(Bytes(key_.begin(), key_.end())); }
  EXPECT_EQ(orders().secrets_left, 1);
}

TEST_F(FakeFailures, AKernelThatDoesNothingOpensNothing) {
  orders().forgets_launches = true;
  EXPECT_EQ(caught([&] { open(); }), failure(ErrorCode::kResource));
}

// Allocating, pinning and creating a stream take longer than a kernel.
TEST_F(FakeFailures, LaterCallsAllocateNothing) {
  const auto calls_of = [&](const auto& action) {
    const std::int64_t before = orders().calls;
    action();
    return orders().calls - before;
  };
  compute_crc();
  const std::int64_t allocations = orders().allocations, streams = orders().streams;
  EXPECT_EQ(calls_of([&] { compute_crc(); }), 7);
  EXPECT_EQ(calls_of([&] { open(); }), 11);
  EXPECT_EQ(orders().allocations, allocations);
  EXPECT_EQ(orders().streams, streams);
}

TEST_F(FakeFailures, NoMoreIsKeptThanCallsNeed) {
  const CudaContext context(0);
  const std::int64_t allocations = orders().allocations;
  gpu::Workspaces& workspaces = gpu::Workspaces::instance();
  workspaces.give_back(workspaces.take(0, std::size_t{5} << 20, 1));
  EXPECT_EQ(orders().allocations, allocations);
  std::vector<std::unique_ptr<gpu::Workspace>> used;
  for (int i = 0; i < 20; ++i) used.push_back(workspaces.take(0, 1, 1));
  for (auto& workspace : used) workspaces.give_back(std::move(workspace));
  EXPECT_EQ(orders().allocations, allocations + 16);
}

TEST_F(FakeFailures, AsManyLaunchesForManyRanges) {
  const std::int64_t launches = orders().launches;
  compute_crc();
  open();
  EXPECT_EQ(orders().launches, launches + 1 + 4);
}

// Two GPUs: the first one multiplies matrices of bits, the second one does not.
TEST_F(FakeFailures, EachGpuTakesTheKernelThatIsFastThere) {
  for (const auto& [device, kernel] : {std::pair{0, "tzmark_crc32_matrix"}, {1, "tzmark_crc32_tables"}}) {
    const DeviceMemory memory(1'000, device);
    const std::array range = {ConstBuffer(memory.buffer())};
    static_cast<void>(crc32_on_device(range));
    EXPECT_STREQ(orders().last_kernel, kernel);
  }
}

}  // namespace
}  // namespace tzmark::test
