// The module tzmark._tzmark: registers its types and functions. What users call is in python/tzmark.
#include "arguments.h"
#include "blocking.h"
#include "checkpoint.h"
#include "errors.h"
#include "group_load.h"
#include "memory.h"
#include "py.h"
#include "reader.h"
#include "tzmark/device.h"
#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/version.h"
#include "writer.h"

namespace tzmark::py {
namespace {

PyObject* io_path_list(PyObject*, PyObject*) {
  return guarded({}, [] {
    const Ref list = own(PyList_New(0));
    for (const IoPath& path : io_paths()) {
      const Ref name = text(path.name), summary = text(path.summary), reason = text(path.why_unavailable());
      append(list, own(PyTuple_Pack(3, name.get(), summary.get(), reason.get())));
    }
    return Ref::borrow(list.get());
  });
}

// The number, rule and text of every error.
PyObject* rules(PyObject*, PyObject*) {
  return guarded({}, [] {
    std::size_t count = 0;
    const ErrorInfo* const table = error_table(count);
    const Ref list = own(PyList_New(0));
    for (std::size_t i = 0; i < count; ++i) {
      const Ref number = py::number(static_cast<std::uint64_t>(table[i].code));
      const Ref rule = text(table[i].rule), words = text(table[i].text);
      append(list, own(PyTuple_Pack(3, number.get(), rule.get(), words.get())));
    }
    return Ref::borrow(list.get());
  });
}

// A load that follows shares the memory, whichever reader it is of.
PyObject* warm_up(PyObject*, PyObject* arguments) {
  int device = 0;
  const char* verify = nullptr;
  unsigned threads = 0;
  if (PyArg_ParseTuple(arguments, "isO&:warm_up", &device, &verify, convert_unsigned, &threads) == 0) return nullptr;
  return guarded({}, [&] {
    DeviceReadOptions options;
    options.device = device;
    options.verify = verification(verify);
    Meter meter;
    run_blocking({.meter = meter, .total_bytes = 0, .may_wait = true}, [&] { tzmark::warm_up(options, threads); });
    return none();
  });
}

PyObject* wait_for_stream(PyObject*, PyObject* arguments) {
  std::uint64_t address = 0, bytes = 0, stream = 0;
  if (PyArg_ParseTuple(arguments, "O&O&O&:wait_for_stream", convert_u64, &address, convert_u64, &bytes, convert_u64,
                       &stream) == 0) {
    return nullptr;
  }
  return guarded({}, [&] {
    const ConstBuffer memory(reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(address)),
                             static_cast<std::size_t>(bytes), MemoryKind::kDevice);
    Meter meter;
    run_blocking({.meter = meter, .total_bytes = 0, .may_wait = true},
                 [&] { tzmark::wait_for_stream(memory, static_cast<std::uintptr_t>(stream)); });
    return none();
  });
}

PyMethodDef functions[] = {
    {"write", write, METH_VARARGS, "Write arrays to a file: see tzmark.save_file."},
    {"convert", convert, METH_VARARGS, "Copy an open file to another format: see tzmark.convert."},
    {"load_together", load_together, METH_VARARGS,
     "Read all tensors by a group: load_together(file, (rank, size, broadcast, all_gather), group_read, key, "
     "passphrase, io, verify, threads, huge_pages, progress)."},
    {"load_checkpoint", load_checkpoint, METH_VARARGS, "Load a checkpoint: see tzmark.Checkpointer."},
    {"checkpoint_candidates", checkpoint_candidates, METH_VARARGS,
     "Return the checkpoints in the order in which to try them, sentences about others, and which may be the newest."},
    {"other_writer", other_writer, METH_VARARGS, "Name another process that saves to a directory."},
    {"clean_checkpoints", clean_checkpoints, METH_VARARGS, "Delete what interrupted saves have left."},
    {"io_paths", io_path_list, METH_NOARGS, "Return (name, summary, why unavailable) of every I/O path."},
    {"rules", rules, METH_NOARGS, "Return (number, rule, text) of every error."},
    {"wait_for_stream", wait_for_stream, METH_VARARGS,
     "Wait for a CUDA stream of the GPU that memory is of: wait_for_stream(address, bytes, stream)."},
    {"warm_up", warm_up, METH_VARARGS, "Prepare loads to a GPU: warm_up(device, verify, threads)."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tzmark._tzmark", "The codec of tzmark.", -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace tzmark::py

PyMODINIT_FUNC PyInit__tzmark() {
  using namespace tzmark::py;
  return guarded({}, [] {
    Ref module = own(PyModule_Create(&definition));
    tzmark::set_wait_check(&Meter::check_any);
    add_buffer_type(module.get());
    add_reader_type(module.get());
    add_checkpointer_type(module.get());
    check(PyModule_AddStringConstant(module.get(), "__version__", tzmark::version()));
    check(PyModule_AddStringConstant(module.get(), "version_text", tzmark::version_text().c_str()));
    return module;
  });
}
