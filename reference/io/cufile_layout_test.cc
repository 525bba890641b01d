// Holds our declarations of libcufile and libcuda against the headers of a CUDA toolkit, where there is one.
#include <gtest/gtest.h>

#include "io/cuda.h"
#include "io/cufile.h"

#ifdef TZMARK_HAS_CUFILE_HEADER
#include <cufile.h>

#include <type_traits>

namespace tzmark {
namespace {

static_assert(sizeof(CuFileStatus) == sizeof(CUfileError_t));
static_assert(offsetof(CuFileStatus, cuda_error) == offsetof(CUfileError_t, cu_err));
static_assert(sizeof(CuFileDescriptor) == sizeof(CUfileDescr_t));
static_assert(offsetof(CuFileDescriptor, type) == offsetof(CUfileDescr_t, type));
static_assert(offsetof(CuFileDescriptor, handle) == offsetof(CUfileDescr_t, handle));
static_assert(offsetof(CuFileDescriptor, operations) == offsetof(CUfileDescr_t, fs_ops));
static_assert(CuFileDescriptor::kOpaqueFd == CU_FILE_HANDLE_TYPE_OPAQUE_FD);
static_assert(std::is_same_v<decltype(CuFileCalls::read), decltype(&cuFileRead)>);
static_assert(std::is_same_v<decltype(CuFileCalls::write), decltype(&cuFileWrite)>);
static_assert(std::is_same_v<decltype(CuFileCalls::deregister_file), decltype(&cuFileHandleDeregister)>);
static_assert(sizeof(CUdeviceptr) == 8 && sizeof(CUdevice) == sizeof(int) && sizeof(CUresult) == sizeof(int));

TEST(CuFileLayout, ErrorsHaveTheHeadersNames) {
  int names = 0;
#define CUFILE_OP(code, name, string)                                            \
  if (name != CU_FILE_SUCCESS && name != CU_FILE_IO_MAX_ERROR) {                 \
    EXPECT_EQ(cufile_error_text(name), #name " (" + std::to_string(name) + ")"); \
    ++names;                                                                     \
  }
  CUFILEOP_STATUS_ENTRIES
#undef CUFILE_OP
  EXPECT_GE(names, 36);
}

#ifdef TZMARK_HAS_CUFILE_STATISTICS

static_assert(sizeof(CuFileGpuStatistics) == sizeof(CUfilePerGpuStats_t));
#define TZMARK_SAME_PLACE(ours, theirs) \
  static_assert(offsetof(CuFileGpuStatistics, ours) == offsetof(CUfilePerGpuStats_t, theirs))
TZMARK_SAME_PLACE(reads.bytes, read_bytes);
TZMARK_SAME_PLACE(reads.total, n_total_reads);
TZMARK_SAME_PLACE(reads.p2p, n_p2p_reads);
TZMARK_SAME_PLACE(reads.nvfs, n_nvfs_reads);
TZMARK_SAME_PLACE(reads.posix, n_posix_reads);
TZMARK_SAME_PLACE(reads.errors, n_reads_err);
TZMARK_SAME_PLACE(writes.bytes, writes_bytes);
TZMARK_SAME_PLACE(writes.total, n_total_writes);
TZMARK_SAME_PLACE(writes.p2p, n_p2p_writes);
TZMARK_SAME_PLACE(writes.nvfs, n_nvfs_writes);
TZMARK_SAME_PLACE(writes.posix, n_posix_writes);
TZMARK_SAME_PLACE(writes.errors, n_writes_err);
TZMARK_SAME_PLACE(registered, n_mmap);
TZMARK_SAME_PLACE(registered_bytes, reg_bytes);
#undef TZMARK_SAME_PLACE

template <typename Ours>
constexpr bool kSameStatistics = sizeof(Ours) == sizeof(CUfileStatsLevel3_t) &&
                                 offsetof(Ours, gpus) == offsetof(CUfileStatsLevel3_t, num_gpus) &&
                                 offsetof(Ours, gpu) == offsetof(CUfileStatsLevel3_t, per_gpu_stats);
static_assert(kSameStatistics<CuFileStatistics115> || kSameStatistics<CuFileStatistics119>);

#endif

}  // namespace
}  // namespace tzmark

#else

TEST(CuFileLayout, ErrorsHaveTheHeadersNames) { GTEST_SKIP() << "no cufile.h and cuda.h where this was built"; }

#endif
