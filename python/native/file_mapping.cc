// A private mapping of a whole file.
#include "file_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "tzmark/descriptor.h"
#include "tzmark/error.h"

namespace tzmark::py {
namespace {

Error call_failed(const char* call, ErrorCode code = ErrorCode::kOpenFailed) {
  return Error(code, std::string(call) + ": " + std::generic_category().message(errno));
}

}  // namespace

FileMapping::FileMapping(const std::string& file_name, const std::optional<FileVersion>& version) {
  // Not blocking, because a FIFO that has no writer would.
  const Descriptor file(::open(file_name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw call_failed("open");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw call_failed("fstat");
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::kUnavailable, "only a regular file can be mapped; without mapped=True it is copied");
  }
  if (version && file_version(file.get()) != *version) {
    throw Error(ErrorCode::kFileChanged, "the file was replaced or changed since it was opened: open it again");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  // Without a reservation, because few programs write to the weights that they read.
  void* const memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
  if (memory == MAP_FAILED) {
    if (errno == ENODEV) throw Error(ErrorCode::kUnavailable, "the file system cannot map files into memory");
    throw call_failed("mmap", errno == ENOMEM ? ErrorCode::kResource : ErrorCode::kOpenFailed);
  }
  data_ = static_cast<std::byte*>(memory);
}

FileMapping::~FileMapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace tzmark::py
