// libcufile, which transfers between files and GPU memory. The library is loaded by the first call.
//
// Environment variables, for tests:
//   TZMARK_CUFILE_LIBRARY     replaces libcufile.so.0
//   TZMARK_CUDA_LIBRARY       replaces libcuda.so.1 (cuda.h)
//   TZMARK_SYSTEM_ROOT        a prefix of /run/udev, /proc/modules and /proc/driver/nvidia-fs/stats
// libcufile itself reads CUFILE_ENV_PATH_JSON, and writes cufile.log to the working directory.
//
// All functions are thread-safe. The library stays loaded. Do not fork after the first call.
//
// The structures are declared here, so that a build does not need the header. They are those of cufile.h in the
// packages nvidia-cufile-cu12 1.14.1 (CUDA 12.9) and nvidia-cufile 1.15.0, 1.16.0, 1.17.0, 1.18.0, 1.19.0 and 1.20.0
// (CUDA 13), and were tried with all of these libraries in compatibility mode. cufile_layout_test.cc compares them with
// an installed header.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <string>

namespace tzmark {

// CUfileError_t
struct CuFileStatus {
  int error = 0;       // CUfileOpError: 0 or 5001 and more
  int cuda_error = 0;  // set if error is 5011
};
static_assert(sizeof(CuFileStatus) == 8 && offsetof(CuFileStatus, cuda_error) == 4);

// CUfileDescr_t. Unused members are zero.
struct CuFileDescriptor {
  static constexpr int kOpaqueFd = 1;  // CU_FILE_HANDLE_TYPE_OPAQUE_FD
  int type = 0;
  int unused = 0;
  union {
    int fd;
    void* pointer;
  } handle{.pointer = nullptr};
  const void* operations = nullptr;  // for file systems in user space
};
static_assert(sizeof(CuFileDescriptor) == 24 && offsetof(CuFileDescriptor, handle) == 8 &&
              offsetof(CuFileDescriptor, operations) == 16);

// CUfilePerGpuStats_t
struct CuFileGpuStatistics {
  struct Reads {
    std::uint64_t bytes, bytes_per_second, utilization, duration_us, total, p2p, nvfs, posix, unaligned,
        dynamic_routing, sparse_regions, inline_regions, errors;
  };
  struct Writes {
    std::uint64_t bytes, bytes_per_second, utilization, duration_us, total, p2p, nvfs, posix, unaligned,
        dynamic_routing, errors;
  };
  std::array<std::uint8_t, 16> uuid;
  Reads reads;
  Writes writes;
  std::uint64_t registered, registered_well, registered_badly, deregistered, registered_bytes;
};
static_assert(sizeof(CuFileGpuStatistics) == 248 && offsetof(CuFileGpuStatistics, reads) == 16 &&
              offsetof(CuFileGpuStatistics, writes) == 120);

// CUfileStatsLevel3_t. Its first member CUfileStatsLevel1_t has grown over time.
template <std::size_t kLevel1Bytes>
struct CuFileStatistics {
  static constexpr std::size_t kGpusMax = 16;
  std::array<std::uint64_t, kLevel1Bytes / 8> level1;
  std::array<std::uint64_t, 32> read_sizes;
  std::array<std::uint64_t, 32> write_sizes;
  std::uint32_t gpus;
  std::uint32_t unused;
  std::array<CuFileGpuStatistics, kGpusMax> gpu;  // the library fills one per GPU
};
using CuFileStatistics115 = CuFileStatistics<512>;  // 1.15 to 1.18
using CuFileStatistics119 = CuFileStatistics<624>;  // 1.19 and 1.20
static_assert(sizeof(CuFileStatistics115) == 5000 && offsetof(CuFileStatistics115, gpus) == 1024 &&
              offsetof(CuFileStatistics115, gpu) == 1032);
static_assert(sizeof(CuFileStatistics119) == 5112 && offsetof(CuFileStatistics119, gpus) == 1136 &&
              offsetof(CuFileStatistics119, gpu) == 1144);

struct CuFileCalls {
  CuFileStatus (*open_driver)() = nullptr;
  CuFileStatus (*register_file)(void** handle, CuFileDescriptor* descriptor) = nullptr;
  void (*deregister_file)(void* handle) = nullptr;
  CuFileStatus (*register_memory)(const void* base, std::size_t bytes, int flags) = nullptr;
  CuFileStatus (*deregister_memory)(const void* base) = nullptr;
  ssize_t (*read)(void* file, void* base, std::size_t bytes, off_t file_offset, off_t memory_offset) = nullptr;
  ssize_t (*write)(void* file, const void* base, std::size_t bytes, off_t file_offset, off_t memory_offset) = nullptr;
  // Null in versions that lack them.
  CuFileStatus (*version)(int* version) = nullptr;  // 1150: 1.15
  CuFileStatus (*set_statistics_level)(int level) = nullptr;
  CuFileStatus (*get_statistics_level)(int* level) = nullptr;
  CuFileStatus (*start_statistics)() = nullptr;
  CuFileStatus (*statistics)(void* level3) = nullptr;
};

// "CU_FILE_INTERNAL_ERROR (5030)". error: positive.
std::string cufile_error_text(int error);

class CuFile {
 public:
  // The first call loads the library and opens its driver, until the process ends.
  static CuFile& instance();

  // The first reason why transfers are impossible; empty if they are possible.
  const std::string& why_unavailable() const { return why_unavailable_; }

  // The rest REQUIRES: why_unavailable() is empty.
  const CuFileCalls& calls() const { return calls_; }
  // 0 if unknown.
  int version() const { return version_; }

  // Registers GPU memory until deregister_memory has been called as often as this. Returns whether it is registered:
  // the library may refuse.
  bool register_memory(const std::byte* data, std::size_t bytes);
  void deregister_memory(const std::byte* data);

  // An address as the library expects it: a registered base, and an offset.
  struct Address {
    const std::byte* base;
    off_t offset;
  };
  Address address_of(const std::byte* data) const;

 private:
  struct Registration {
    std::size_t bytes;
    unsigned users;
  };

  CuFile();
  std::string start();
  // Empty if it takes files. REQUIRES: its driver is open, and a CudaContext.
  std::string why_files_are_refused() const;

  CuFileCalls calls_;
  int version_ = 0;
  std::string why_unavailable_;
  mutable std::shared_mutex mutex_;
  std::map<const std::byte*, Registration> registrations_;  // by base
};

// Returns the name of a system file, below TZMARK_SYSTEM_ROOT if that is set.
std::string system_file(const std::string& name);

}  // namespace tzmark
