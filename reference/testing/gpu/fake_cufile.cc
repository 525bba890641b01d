// For tests: a libcufile that moves bytes between files and the device memory of the stand-in of libcuda.
//
// It does what libcufile 1.20 was seen to do in compatibility mode: an unallocated address is EFAULT, reads
// at the end are short, then 0, and the statistics count what was asked for. It is stricter where the documentation is:
// a thread without a context and a descriptor without O_DIRECT are errors.
// TZMARK_FAKE_OPEN_ERROR, TZMARK_FAKE_REGISTER_ERROR: what cuFileDriverOpen and cuFileHandleRegister return. Built with
// TZMARK_FAKE_OLD, it is of a version that has no statistics.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "io/cufile.h"
#include "testing/gpu/fake.h"

namespace {

using tzmark::CuFileDescriptor;
using tzmark::CuFileGpuStatistics;
using tzmark::CuFileStatus;
using tzmark::test::FakeOrders;
using tzmark::test::FakeRoute;

constexpr int kInvalidOpenFlag = 5019, kInvalidValue = 5022, kAlreadyRegistered = 5023, kMemoryNotRegistered = 5024,
              kInvalidContext = 5047;

struct OpenFile {
  int fd;  // without O_DIRECT, which would want aligned memory
};

std::mutex mutex;
std::map<const void*, std::size_t> registered;
CuFileGpuStatistics statistics{};
bool counting = false;

FakeOrders& orders() {
  static FakeOrders object;
  return object;
}

// Whether this call is the one that fails.
bool fails() { return orders().calls++ == orders().fail_call; }

template <typename Direction>
void count(Direction& direction, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  if (!counting || orders().statistics_level < 3) return;
  const std::uint64_t number = direction.total++;
  if (orders().counts_bytes) direction.bytes += bytes;
  switch (orders().route) {
    case FakeRoute::kP2p:
      ++direction.p2p;
      break;
    case FakeRoute::kNvidiaFs:
      ++direction.nvfs;
      break;
    case FakeRoute::kPosix:
      ++direction.posix;
      break;
    case FakeRoute::kInTurn:
      ++(number % 2 == 0 ? direction.p2p : direction.posix);
      break;
    case FakeRoute::kUnnamed:
      break;
  }
}

// What comes before any byte moves: 0, or what the call returns.
ssize_t refuse() {
  FakeOrders& order = orders();
  if (order.interruptions > 0) {
    --order.interruptions;
    errno = EINTR;
    return -1;
  }
  if (fails()) {
    if (order.fail_with > 5000 && !order.fails_by_errno) return -order.fail_with;
    errno = order.fail_with;
    return -1;
  }
  return tzmark_fake_has_context() ? order.lie : -kInvalidContext;
}

// The bytes of device memory; null, with errno set, if it is none.
std::byte* bytes_of(const void* base, off_t offset, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex);
    if (registered.contains(base)) ++orders().moves_from_registered;
  }
  errno = EFAULT;
  return tzmark_fake_device_bytes(reinterpret_cast<std::uintptr_t>(base) + static_cast<std::uint64_t>(offset), bytes);
}

}  // namespace

extern "C" {

FakeOrders* tzmark_fake_orders() { return &orders(); }

CuFileStatus cuFileDriverOpen() {
  const char* error = std::getenv("TZMARK_FAKE_OPEN_ERROR");
  return {error == nullptr ? 0 : std::atoi(error), error == nullptr ? 0 : 2};
}

CuFileStatus cuFileHandleRegister(void** handle, CuFileDescriptor* descriptor) {
  if (fails()) return {orders().fail_with, 0};
  if (const char* error = std::getenv("TZMARK_FAKE_REGISTER_ERROR"); error != nullptr) return {std::atoi(error), 0};
  const int fd = descriptor->handle.fd;
  const int flags = ::fcntl(fd, F_GETFL);
  if (descriptor->type != CuFileDescriptor::kOpaqueFd || flags < 0) return {kInvalidValue, 0};
  if ((flags & O_DIRECT) == 0) return {kInvalidOpenFlag, 0};
  const std::string name = fmt::format("/proc/self/fd/{}", fd);
  *handle = new OpenFile{::open(name.c_str(), (flags & O_ACCMODE) | O_CLOEXEC)};
  ++orders().files_registered;
  return {};
}

void cuFileHandleDeregister(void* handle) {
  auto* const file = static_cast<OpenFile*>(handle);
  ::close(file->fd);
  delete file;
  --orders().files_registered;
}

CuFileStatus cuFileBufRegister(const void* base, std::size_t bytes, int) {
  if (fails()) return {orders().fail_with, 0};
  if (!tzmark_fake_has_context()) return {kInvalidContext, 0};
  if (tzmark_fake_device_bytes(reinterpret_cast<std::uintptr_t>(base), bytes) == nullptr) return {kInvalidValue, 0};
  const std::lock_guard lock(mutex);
  if (!registered.emplace(base, bytes).second) return {kAlreadyRegistered, 0};
  ++orders().memory_registered;
  return {};
}

CuFileStatus cuFileBufDeregister(const void* base) {
  const std::lock_guard lock(mutex);
  if (registered.erase(base) == 0) return {kMemoryNotRegistered, 0};
  --orders().memory_registered;
  return {};
}

ssize_t cuFileRead(void* handle, void* base, std::size_t bytes, off_t file_offset, off_t memory_offset) {
  if (const ssize_t refusal = refuse(); refusal != 0) return refusal;
  std::byte* const memory = bytes_of(base, memory_offset, bytes);
  if (memory == nullptr) return -1;
  const int fd = static_cast<OpenFile*>(handle)->fd;
  const ssize_t moved = ::pread(fd, memory, std::min(bytes, orders().bytes_max), file_offset);
  count(statistics.reads, bytes);
  return moved;
}

ssize_t cuFileWrite(void* handle, const void* base, std::size_t bytes, off_t file_offset, off_t memory_offset) {
  if (const ssize_t refusal = refuse(); refusal != 0) return refusal;
  const std::byte* const memory = bytes_of(base, memory_offset, bytes);
  if (memory == nullptr) return -1;
  const int fd = static_cast<OpenFile*>(handle)->fd;
  const ssize_t moved = ::pwrite(fd, memory, std::min(bytes, orders().bytes_max), file_offset);
  count(statistics.writes, bytes);
  return moved;
}

#ifndef TZMARK_FAKE_OLD

CuFileStatus cuFileGetVersion(int* version) {
  const char* from_environment = std::getenv("TZMARK_FAKE_VERSION");
  *version = from_environment == nullptr ? 1200 : std::atoi(from_environment);
  return {};
}

CuFileStatus cuFileSetStatsLevel(int level) {
  orders().statistics_level = level;
  return {};
}

CuFileStatus cuFileGetStatsLevel(int* level) {
  *level = orders().statistics_level;
  return {};
}

CuFileStatus cuFileStatsStart() {
  const std::lock_guard lock(mutex);
  counting = true;
  return {};
}

CuFileStatus cuFileGetStatsL3(void* level3) {
  if (orders().statistics_error != 0) return {orders().statistics_error, 0};
  const std::lock_guard lock(mutex);
  // As if one GPU had read and another had written, so that they have to be summed.
  tzmark::CuFileStatistics119 filled{};
  filled.gpus = 2;
  filled.gpu[0].reads = statistics.reads;
  filled.gpu[1].writes = statistics.writes;
  std::memcpy(level3, &filled, offsetof(tzmark::CuFileStatistics119, gpu) + 2 * sizeof(CuFileGpuStatistics));
  return {};
}

#endif

}  // extern "C"
