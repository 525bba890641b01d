// Loading libcufile, opening its driver, and tracking registered memory.
#include "io/cufile.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "io/cuda.h"
#include "io/shared_library.h"
#include "tzmark/descriptor.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

struct ErrorName {
  int error;
  std::string_view name;
};

// CUfileOpError of cufile 1.20. Version 1.14 ends at 5038, and its 5039 is 5050 here.
constexpr std::array kErrorNames = {
    ErrorName{5001, "CU_FILE_DRIVER_NOT_INITIALIZED"},
    ErrorName{5002, "CU_FILE_DRIVER_INVALID_PROPS"},
    ErrorName{5003, "CU_FILE_DRIVER_UNSUPPORTED_LIMIT"},
    ErrorName{5004, "CU_FILE_DRIVER_VERSION_MISMATCH"},
    ErrorName{5005, "CU_FILE_DRIVER_VERSION_READ_ERROR"},
    ErrorName{5006, "CU_FILE_DRIVER_CLOSING"},
    ErrorName{5007, "CU_FILE_PLATFORM_NOT_SUPPORTED"},
    ErrorName{5008, "CU_FILE_IO_NOT_SUPPORTED"},
    ErrorName{5009, "CU_FILE_DEVICE_NOT_SUPPORTED"},
    ErrorName{5010, "CU_FILE_NVFS_DRIVER_ERROR"},
    ErrorName{5011, "CU_FILE_CUDA_DRIVER_ERROR"},
    ErrorName{5012, "CU_FILE_CUDA_POINTER_INVALID"},
    ErrorName{5013, "CU_FILE_CUDA_MEMORY_TYPE_INVALID"},
    ErrorName{5014, "CU_FILE_CUDA_POINTER_RANGE_ERROR"},
    ErrorName{5015, "CU_FILE_CUDA_CONTEXT_MISMATCH"},
    ErrorName{5016, "CU_FILE_INVALID_MAPPING_SIZE"},
    ErrorName{5017, "CU_FILE_INVALID_MAPPING_RANGE"},
    ErrorName{5018, "CU_FILE_INVALID_FILE_TYPE"},
    ErrorName{5019, "CU_FILE_INVALID_FILE_OPEN_FLAG"},
    ErrorName{5020, "CU_FILE_DIO_NOT_SET"},
    ErrorName{5022, "CU_FILE_INVALID_VALUE"},
    ErrorName{5023, "CU_FILE_MEMORY_ALREADY_REGISTERED"},
    ErrorName{5024, "CU_FILE_MEMORY_NOT_REGISTERED"},
    ErrorName{5025, "CU_FILE_PERMISSION_DENIED"},
    ErrorName{5026, "CU_FILE_DRIVER_ALREADY_OPEN"},
    ErrorName{5027, "CU_FILE_HANDLE_NOT_REGISTERED"},
    ErrorName{5028, "CU_FILE_HANDLE_ALREADY_REGISTERED"},
    ErrorName{5029, "CU_FILE_DEVICE_NOT_FOUND"},
    ErrorName{5030, "CU_FILE_INTERNAL_ERROR"},
    ErrorName{5031, "CU_FILE_GETNEWFD_FAILED"},
    ErrorName{5033, "CU_FILE_NVFS_SETUP_ERROR"},
    ErrorName{5034, "CU_FILE_IO_DISABLED"},
    ErrorName{5035, "CU_FILE_BATCH_SUBMIT_FAILED"},
    ErrorName{5036, "CU_FILE_GPU_MEMORY_PINNING_FAILED"},
    ErrorName{5037, "CU_FILE_BATCH_FULL"},
    ErrorName{5038, "CU_FILE_ASYNC_NOT_SUPPORTED"},
    ErrorName{5039, "CU_FILE_INTERNAL_BATCH_SETUP_ERROR"},
    ErrorName{5040, "CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR"},
    ErrorName{5041, "CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR"},
    ErrorName{5042, "CU_FILE_INTERNAL_BATCH_CANCEL_ERROR"},
    ErrorName{5043, "CU_FILE_NOMEM_ERROR"},
    ErrorName{5044, "CU_FILE_IO_ERROR"},
    ErrorName{5045, "CU_FILE_INTERNAL_BUF_REGISTER_ERROR"},
    ErrorName{5046, "CU_FILE_HASH_OPR_ERROR"},
    ErrorName{5047, "CU_FILE_INVALID_CONTEXT_ERROR"},
    ErrorName{5048, "CU_FILE_NVFS_INTERNAL_DRIVER_ERROR"},
    ErrorName{5049, "CU_FILE_BATCH_NOCOMPAT_ERROR"},
};

// Returns what libcufile needs from the system and does not find; empty if there is nothing.
std::string why_system_unready() {
  // Without udev, libcufile recognizes no file system and registers no file.
  const std::string udev = system_file("/run/udev");
  if (::access(udev.c_str(), R_OK | X_OK) != 0)
    return udev + " cannot be read; libcufile needs it (mount it into containers)";
  // libcufile 1.15 to 1.20 loop forever if this file is missing.
  const std::string modules = system_file("/proc/modules");
  if (::access(modules.c_str(), R_OK) != 0) return modules + " cannot be read; libcufile needs it";
  return {};
}

}  // namespace

std::string system_file(const std::string& name) {
  const char* root = std::getenv("TZMARK_SYSTEM_ROOT");
  return root == nullptr ? name : root + name;
}

std::string cufile_error_text(int error) {
  const auto* const row = std::ranges::find(kErrorNames, error, &ErrorName::error);
  return row == kErrorNames.end() ? fmt::format("cuFile error {}", error) : fmt::format("{} ({})", row->name, error);
}

CuFile& CuFile::instance() {
  // Never destroyed: threads of the library may outlive main.
  static CuFile* const cufile = new CuFile;
  return *cufile;
}

CuFile::CuFile() {
  try {
    why_unavailable_ = start();
  } catch (const Error& error) {
    why_unavailable_ = error.message();
  }
}

std::string CuFile::start() {
  const Cuda& cuda = Cuda::instance();
  if (!cuda.why_unavailable().empty()) return cuda.why_unavailable();
  SharedLibrary library("libcufile.so.0", "TZMARK_CUFILE_LIBRARY");
  if (!library.why_not_loaded().empty()) return "there is no libcufile: " + library.why_not_loaded();
  library.require(calls_.open_driver, "cuFileDriverOpen");
  library.require(calls_.register_file, "cuFileHandleRegister");
  library.require(calls_.deregister_file, "cuFileHandleDeregister");
  library.require(calls_.register_memory, "cuFileBufRegister");
  library.require(calls_.deregister_memory, "cuFileBufDeregister");
  library.require(calls_.read, "cuFileRead");
  library.require(calls_.write, "cuFileWrite");
  library.look_for(calls_.version, "cuFileGetVersion");
  library.look_for(calls_.set_statistics_level, "cuFileSetStatsLevel");
  library.look_for(calls_.get_statistics_level, "cuFileGetStatsLevel");
  library.look_for(calls_.start_statistics, "cuFileStatsStart");
  library.look_for(calls_.statistics, "cuFileGetStatsL3");
  if (!library.missing().empty()) return fmt::format("{} lacks {}", library.name(), fmt::join(library.missing(), ", "));
  if (std::string reason = why_system_unready(); !reason.empty()) return reason;

  const CudaContext context;
  if (const CuFileStatus status = calls_.open_driver(); status.error != 0) {
    const bool of_cuda = status.error == 5011;
    return fmt::format("cuFileDriverOpen: {}{}{}", cufile_error_text(status.error), of_cuda ? ", " : "",
                       of_cuda ? cuda.error_text(status.cuda_error) : "");
  }
  if (calls_.version == nullptr || calls_.version(&version_).error != 0) version_ = 0;
  return why_files_are_refused();
}

std::string CuFile::why_files_are_refused() const {
  // Our own program, since any file shows it. What libcufile says of the file system alone is of no interest here.
  const Descriptor program(::open("/proc/self/exe", O_RDONLY | O_DIRECT | O_CLOEXEC));
  if (program.get() < 0) return {};
  CuFileDescriptor descriptor;
  descriptor.type = CuFileDescriptor::kOpaqueFd;
  descriptor.handle.fd = program.get();
  void* handle = nullptr;
  constexpr int kHandleNotRegistered = 5027;
  const int error = calls_.register_file(&handle, &descriptor).error;
  if (error == 0) calls_.deregister_file(handle);
  if (error != kHandleNotRegistered) return {};
  return fmt::format("cuFileHandleRegister: {}: libcufile takes no file here, as without the kernel module nvidia-fs",
                     cufile_error_text(error));
}

bool CuFile::register_memory(const std::byte* data, std::size_t bytes) {
  const std::unique_lock lock(mutex_);
  if (const auto known = registrations_.find(data); known != registrations_.end()) {
    if (known->second.bytes < bytes) return false;
    ++known->second.users;
    return true;
  }
  const CudaContext context(Cuda::instance().device_of_or_any(data));
  if (calls_.register_memory(data, bytes, 0).error != 0) return false;
  registrations_.emplace(data, Registration{bytes, 1});
  return true;
}

void CuFile::deregister_memory(const std::byte* data) {
  const std::unique_lock lock(mutex_);
  const auto known = registrations_.find(data);
  if (known == registrations_.end() || --known->second.users > 0) return;
  registrations_.erase(known);
  const CudaContext context(Cuda::instance().device_of_or_any(data));
  // A failure is harmless: the library drops the registration when the memory is freed.
  static_cast<void>(calls_.deregister_memory(data));
}

CuFile::Address CuFile::address_of(const std::byte* data) const {
  {
    const std::shared_lock lock(mutex_);
    auto next = registrations_.upper_bound(data);
    if (next != registrations_.begin()) {
      const auto& [base, registration] = *--next;
      if (data < base + registration.bytes) return {base, data - base};
    }
  }
  const auto base = Cuda::instance().allocation_of(reinterpret_cast<std::uintptr_t>(data)).base;
  const auto* const begin = reinterpret_cast<const std::byte*>(base);
  return {begin, data - begin};
}

}  // namespace tzmark
