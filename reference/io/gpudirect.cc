// The gpudirect path: libcufile transfers between the file and GPU memory, bypassing the CPU where it can.
//
// GPU memory uses cuFileRead and cuFileWrite, on a descriptor that was opened with O_DIRECT and registered once. Host
// memory (indexes, headers) uses pread and pwrite on a second, buffered descriptor of the same file.
// libcufile accepts any offset and length. But a direct write that does not fill a block needs a read-modify-write of
// the block, and libcufile does not promise to serialize threads that write adjacent parts of one block. So the
// unaligned ends of a write are copied to the host and written through the page cache; aligned_io.h says why the result
// is consistent. Threads need no coordination.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "io/aligned_file.h"
#include "io/cuda.h"
#include "io/cufile.h"
#include "io/gpudirect_statistics.h"

namespace tzmark {
namespace {

// A descriptor that is registered with libcufile. REQUIRES: the descriptor outlives it.
class RegisteredFile {
 public:
  explicit RegisteredFile(int fd) {
    const CudaContext context;
    CuFileDescriptor descriptor;
    descriptor.type = CuFileDescriptor::kOpaqueFd;
    descriptor.handle.fd = fd;
    const CuFileStatus status = CuFile::instance().calls().register_file(&handle_, &descriptor);
    if (status.error != 0) {
      throw Error(ErrorCode::kUnavailable, "cuFileHandleRegister: " + cufile_error_text(status.error));
    }
  }
  RegisteredFile(const RegisteredFile&) = delete;
  RegisteredFile& operator=(const RegisteredFile&) = delete;
  ~RegisteredFile() { CuFile::instance().calls().deregister_file(handle_); }

  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
};

// libcufile also sets errno to its own error numbers.
std::string errno_text(int number) {
  if (number == 0) return "unknown error";
  return number > 5000 ? cufile_error_text(number) : error_text(number);
}

// Returns the result of cuFileRead or cuFileWrite, or throws its error.
std::size_t moved_or_throw(ssize_t result, Transfer::Kind kind, std::size_t asked_bytes, std::uint64_t offset) {
  const bool reads = kind == Transfer::Kind::kRead;
  const auto fail = [&](const std::string& what) {
    return Error(reads ? ErrorCode::kReadFailed : ErrorCode::kWriteFailed,
                 fmt::format("{}: {}", reads ? "cuFileRead" : "cuFileWrite", what), offset);
  };
  if (result == -1) throw fail(errno_text(errno));
  if (result < 0) throw fail(cufile_error_text(static_cast<int>(-result)));
  if (static_cast<std::size_t>(result) > asked_bytes) throw fail("transferred more bytes than requested");
  // 0 is the end of the file when reading, but would cause an endless loop when writing.
  if (result == 0 && !reads) throw fail("wrote nothing");
  return static_cast<std::size_t>(result);
}

class GpuDirectFile final : public SizedFile {
 public:
  explicit GpuDirectFile(OpenedFile opened)
      : SizedFile(std::move(opened)), registered_(this->opened().direct.get()), edges_(this->opened().alignment) {}

  std::string_view io_path() const override { return "gpudirect"; }
  bool moves_device_memory() const override { return true; }
  // cuFileRead blocks, so each transfer in flight needs a thread, which mostly waits.
  unsigned queue_depth_default() const override { return 8; }
  std::unique_ptr<TransferQueue> make_queue(unsigned depth) override;

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    return out.kind == MemoryKind::kDevice ? read_device(offset, out) : read_host(offset, out);
  }

  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override {
    const std::size_t moved = in.kind == MemoryKind::kDevice ? write_device(offset, in) : write_host(offset, in);
    grow_to(offset + moved);
    return moved;
  }

 private:
  std::size_t read_device(std::uint64_t offset, MutableBuffer out) {
    const CudaContext context(Cuda::instance().device_of_or_any(out.data));
    const CuFile& cufile = CuFile::instance();
    const CuFile::Address place = cufile.address_of(out.data);
    const ssize_t result = uninterrupted(EAGAIN, [&] {
      return cufile.calls().read(registered_.handle(), const_cast<std::byte*>(place.base), out.size,
                                 static_cast<off_t>(offset), place.offset);
    });
    const std::size_t moved = moved_or_throw(result, Transfer::Kind::kRead, out.size, offset);
    gpudirect_moved().read_bytes += moved;
    return bytes_still_there(opened().buffered.get(), offset, moved);
  }

  std::size_t write_device(std::uint64_t offset, ConstBuffer in) {
    const CudaContext context(Cuda::instance().device_of_or_any(in.data));
    const Alignment of_file{opened().alignment.unit_bytes, 1};
    const AlignedStep step = write_step(of_file, offset, in, of_file.unit_bytes);
    if (step.route == AlignedStep::Route::kBuffered) return write_edge(offset, in.sub(0, step.bytes));
    const CuFile& cufile = CuFile::instance();
    const CuFile::Address place = cufile.address_of(in.data);
    const ssize_t result = uninterrupted(EAGAIN, [&] {
      return cufile.calls().write(registered_.handle(), place.base, step.bytes, static_cast<off_t>(offset),
                                  place.offset);
    });
    const std::size_t moved = moved_or_throw(result, Transfer::Kind::kWrite, step.bytes, offset);
    gpudirect_moved().write_bytes += moved;
    return moved;
  }

  // REQUIRES: it is shorter than a unit.
  std::size_t write_edge(std::uint64_t offset, ConstBuffer in) {
    AlignedMemory copy = edges_.take();
    const int error =
        Cuda::instance().calls().copy_to_host(copy.get(), reinterpret_cast<std::uintptr_t>(in.data), in.size);
    if (error != 0) {
      throw Error(ErrorCode::kWriteFailed, "cuMemcpyDtoH: " + Cuda::instance().error_text(error), offset);
    }
    const std::size_t moved = write_host(offset, {copy.get(), in.size});
    edges_.give_back(std::move(copy));
    gpudirect_moved().edge_bytes += moved;
    return moved;
  }

  std::size_t read_host(std::uint64_t offset, MutableBuffer out) {
    const ssize_t moved = uninterrupted(
        EAGAIN, [&] { return ::pread(opened().buffered.get(), out.data, out.size, static_cast<off_t>(offset)); });
    if (moved < 0) throw move_error(io_path(), Transfer::Kind::kRead, errno, offset);
    return bytes_still_there(opened().buffered.get(), offset, static_cast<std::size_t>(moved));
  }

  std::size_t write_host(std::uint64_t offset, ConstBuffer in) {
    const ssize_t moved = uninterrupted(
        EAGAIN, [&] { return ::pwrite(opened().buffered.get(), in.data, in.size, static_cast<off_t>(offset)); });
    if (moved <= 0) throw move_error(io_path(), Transfer::Kind::kWrite, moved == 0 ? EIO : errno, offset);
    return static_cast<std::size_t>(moved);
  }

  const RegisteredFile registered_;
  BouncePool edges_;
};

// The queue of a synchronous path, with memory that is registered with libcufile.
class GpuDirectQueue final : public TransferQueue {
 public:
  explicit GpuDirectQueue(std::unique_ptr<TransferQueue> queue) : queue_(std::move(queue)) {}
  ~GpuDirectQueue() override {
    queue_.reset();
    for (const std::byte* data : registered_) CuFile::instance().deregister_memory(data);
  }

  unsigned depth() const override { return queue_->depth(); }
  unsigned in_flight() const override { return queue_->in_flight(); }
  void start(Transfer& transfer) override { queue_->start(transfer); }
  Transfer& wait() override { return queue_->wait(); }
  Transfer* poll() override { return queue_->poll(); }
  // If registration is refused (the BAR of a GPU is small), libcufile uses its own bounce buffers.
  void register_memory(std::span<const MutableBuffer> buffers) override {
    for (const MutableBuffer& buffer : buffers) {
      if (buffer.kind != MemoryKind::kDevice || buffer.size == 0) continue;
      if (CuFile::instance().register_memory(buffer.data, buffer.size)) registered_.push_back(buffer.data);
    }
  }

 private:
  std::unique_ptr<TransferQueue> queue_;
  std::vector<const std::byte*> registered_;
};

std::unique_ptr<TransferQueue> GpuDirectFile::make_queue(unsigned depth) {
  return std::make_unique<GpuDirectQueue>(File::make_queue(depth));
}

}  // namespace

PathOfDescriptor gpudirect_path() {
  // libcufile looks up the names of its files, and its handles belong to one process.
  return {
      .name = "gpudirect",
      .summary = "libcufile, between files and GPU memory (GPUDirect Storage)",
      .traits = {.bypasses_cache = true, .moves_device_memory = true, .is_fork_safe = false, .needs_file_name = true},
      .why_unavailable = [] { return CuFile::instance().why_unavailable(); },
      .open = [](Opening&& opening) -> std::unique_ptr<File> {
        return std::make_unique<GpuDirectFile>(open_directly(std::move(opening)));
      }};
}

}  // namespace tzmark
