// Loading a file by a group of processes together, whose communication Python does.
#include "group_load.h"

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "blocking.h"
#include "errors.h"
#include "memory.h"
#include "open_model.h"
#include "tzmark/error.h"
#include "tzmark/group.h"
#include "tzmark/model_file.h"

namespace tzmark::py {
namespace {

constexpr int kWritable = 0x200;  // PyBUF_WRITE, which the headers of the limited API lack before 3.11

// Calls functions of Python from the threads of an exchange, each of which takes the interpreter's lock.
class PythonGroup final : public Group {
 public:
  // broadcast: called as broadcast(memory, root). all_gather: called as all_gather(memory), or None. Both are borrowed.
  // meter: of the load, which it ends.
  PythonGroup(unsigned rank, unsigned size, PyObject* broadcast, PyObject* all_gather, const Meter& meter)
      : rank_(rank), size_(size), broadcast_(broadcast), all_gather_(all_gather), meter_(meter) {
    if (rank >= size) {
      throw Error(ErrorCode::kUsage,
                  "a group of " + std::to_string(size) + " has no rank " + std::to_string(rank) + ", counted from 0");
    }
  }

  unsigned rank() const override { return rank_; }
  unsigned size() const override { return size_; }
  void broadcast(std::span<std::byte> memory, unsigned root) override { call(broadcast_, memory, root); }
  void all_gather(std::span<std::byte> memory) override {
    if (all_gather_ == Py_None) return Group::all_gather(memory);
    call(all_gather_, memory, std::nullopt);
  }

  void check() override { meter_.check(); }

  // What one of the functions raised, which broke the group; null if none did.
  Ref take_raised() { return std::move(raised_); }

 private:
  void call(PyObject* function, std::span<std::byte> memory, std::optional<unsigned> root) {
    const Locked locked;
    try {
      const Ref view = own(PyMemoryView_FromMemory(reinterpret_cast<char*>(memory.data()),
                                                   static_cast<Py_ssize_t>(memory.size()), kWritable));
      const Ref number = root ? py::number(*root) : Ref();
      own(called(function, view, number));
    } catch (const PythonError&) {
      raised_ = take_exception();
      throw Error(ErrorCode::kReadFailed, text_of(raised_));
    }
  }

  // Python code may wait for the lock when the process ends: see wait_for_end.
  static PyObject* called(PyObject* function, const Ref& view, const Ref& number) {
    try {
      return PyObject_CallFunctionObjArgs(function, view.get(), number.get(), nullptr);
    } catch (...) {
      wait_for_end();
    }
  }

  const unsigned rank_, size_;
  PyObject* const broadcast_;
  PyObject* const all_gather_;
  const Meter& meter_;
  Ref raised_;
};

GroupRead group_read(const std::string& name) {
  if (name == "gather") return GroupRead::kGather;
  if (name == "broadcast") return GroupRead::kBroadcast;
  throw Error(ErrorCode::kUsage, "group_read is \"gather\" or \"broadcast\"");
}

// Opens the file of this rank. What is refused here, all ranks hear of.
std::unique_ptr<File> open_own(const std::string& name, const std::string& io_path) {
  if (name == "-") throw Error(ErrorCode::kUsage, "a group reads a file, and standard input is that of one process");
  ModelFile model = open_model_file(name, io_path);
  if (model.file_name != name) {
    throw Error(ErrorCode::kUsage, "a group reads a file, and this is a directory: give " + model.file_name);
  }
  if (model.format == ModelFormat::kSafetensors) {
    throw Error(ErrorCode::kUsage,
                "a group reads .tensors files, and this is a safetensors file: convert it, or load it without group=");
  }
  return std::move(model.file);
}

// Raises an error with what the group raised as its cause, or the latter if it is none to be caught, such as
// KeyboardInterrupt.
[[noreturn]] void raise_from(Ref raised, const std::exception_ptr& error, const std::string& file_name) {
  Ref exception;
  if (PyObject_IsInstance(raised.get(), PyExc_Exception) == 1) {
    set_error(error, file_name);
    exception = take_exception();
    PyException_SetCause(exception.get(), raised.release());
  } else {
    exception = std::move(raised);
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
  throw PythonError{};
}

}  // namespace

PyObject* load_together(PyObject*, PyObject* arguments) {
  const char *file_name = nullptr, *how = nullptr, *io = nullptr, *verify = nullptr;
  unsigned rank = 0, size = 0, threads = 0;
  PyObject *broadcast = nullptr, *all_gather = nullptr, *key = nullptr, *passphrase = nullptr, *progress = nullptr;
  int huge_pages = 1;
  if (PyArg_ParseTuple(arguments, "y(O&O&OO)sOOssO&pO:load_together", &file_name, convert_unsigned, &rank,
                       convert_unsigned, &size, &broadcast, &all_gather, &how, &key, &passphrase, &io, &verify,
                       convert_unsigned, &threads, &huge_pages, &progress) == 0) {
    return nullptr;
  }
  return guarded(file_name, [&] {
    if (*file_name == '\0') throw Error(ErrorCode::kUsage, "the file name is empty");
    Meter meter;
    PythonGroup group(rank, size, broadcast, all_gather, meter);
    GroupReadOptions group_options;
    group_options.how = group_read(how);
    const Verification checks = verification(verify);
    const auto pages = huge_pages != 0 ? HostMemory::Pages::kHuge : HostMemory::Pages::kSmall;
    ReadOptions options;
    options.key = key_source(key, passphrase);
    options.io_path = io;
    options.threads = threads;
    options.progress = [&meter](std::uint64_t bytes) { meter.add(bytes); };

    std::atomic<std::uint64_t> total_bytes = 0;
    std::vector<ModelTensor> tensors;
    std::vector<TensorMemory> memory;
    const auto load = [&](const Reader& reader) {
      total_bytes = reader.file_bytes();
      for (std::size_t i = 0; i < reader.tensors().size(); ++i) tensors.push_back(model_tensor(reader.tensors()[i]));
      memory = memory_of(reader, reader.load(checks, pages));
    };
    try {
      run_blocking(
          {.meter = meter, .total_bytes = 0, .progress = progress, .may_wait = true, .total_bytes_later = &total_bytes},
          [&] {
            try {
              read_together(
                  file_name, [&](const std::string& name) { return open_own(name, io); }, group, group_options,
                  std::move(options), load);
            } catch (const Cancelled& cancelled) {
              // As an error, because only all ranks together could run it again.
              throw Error(ErrorCode::kReadFailed, cancelled.what());
            }
          });
    } catch (const PythonError&) {
      throw;
    } catch (...) {
      Ref raised = group.take_raised();
      if (!raised) throw;
      raise_from(std::move(raised), std::current_exception(), file_name);
    }
    Ref list = own(PyList_New(0));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Ref name = name_object(tensors[i].path), stored = text(tensors[i].stored_dtype);
      const Ref buffer = make_buffer(std::move(memory[i]));
      append(list, own(PyTuple_Pack(3, name.get(), stored.get(), buffer.get())));
    }
    return list;
  });
}

}  // namespace tzmark::py
