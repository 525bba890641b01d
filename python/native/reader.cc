// tzmark._tzmark.Reader: an open model file. The class tzmark.Reader, in Python, is what users see.
#include "reader.h"

#include <new>
#include <utility>

#include "arguments.h"
#include "blocking.h"
#include "errors.h"
#include "tzmark/canonical.h"
#include "tzmark/error.h"
#include "tzmark/safetensors.h"

namespace tzmark::py {
namespace {

struct ReaderState {
  std::string file_name;
  std::shared_ptr<OpenModel> model;  // null after close
  Ref data;                          // of a file in memory
};
struct ReaderObject {
  PyObject_HEAD ReaderState* state;
};

// A call that was cancelled for another one has to be made anew.
struct Again {};

PyObject* reader_type = nullptr;

ReaderState& state_of(PyObject* self) { return *reinterpret_cast<ReaderObject*>(self)->state; }

std::shared_ptr<OpenModel> open_model(const ReaderState& state) {
  if (!state.model) throw Error(ErrorCode::kUsage, "the reader is closed");
  return state.model;
}

template <typename Body>
PyObject* method(PyObject* self, Body body) noexcept {
  return guarded(state_of(self).file_name, [&] { return body(open_model(state_of(self))); });
}

// Runs work on the model. bytes: what it is expected to process.
void run_on(OpenModel& model, std::uint64_t bytes, PyObject* progress, const std::function<void()>& work) {
  model.require_same_process();
  run_blocking({.meter = model.meter(), .total_bytes = bytes, .progress = progress, .may_wait = model.may_wait()},
               work);
}

std::size_t tensor_of(const OpenModel& model, Py_ssize_t tensor) {
  if (tensor < 0 || static_cast<std::size_t>(tensor) >= model.size()) {
    throw Error(ErrorCode::kNoSuchTensor, "there is no tensor of number " + std::to_string(tensor));
  }
  return static_cast<std::size_t>(tensor);
}

Ref object_of(PyTypeObject* type, std::unique_ptr<ReaderState> state) {
  Ref object = own(reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0));
  reinterpret_cast<ReaderObject*>(object.get())->state = state.release();
  return object;
}

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  const char* file_name = nullptr;
  PyObject *data = nullptr, *key = nullptr, *passphrase = nullptr;
  int mapped = 0;
  const char *io = nullptr, *profile = nullptr, *data_file = nullptr;
  unsigned threads = 0;
  static char* names[] = {const_cast<char*>("file"),    const_cast<char*>("data"),
                          const_cast<char*>("key"),     const_cast<char*>("passphrase"),
                          const_cast<char*>("io"),      const_cast<char*>("data_file"),
                          const_cast<char*>("profile"), const_cast<char*>("threads"),
                          const_cast<char*>("mapped"),  nullptr};
  if (PyArg_ParseTupleAndKeywords(arguments, keywords, "yOOOsysO&p:Reader", names, &file_name, &data, &key, &passphrase,
                                  &io, &data_file, &profile, convert_unsigned, &threads, &mapped) == 0) {
    return nullptr;
  }
  return guarded(file_name, [&] {
    auto state = std::make_unique<ReaderState>();
    state->file_name = file_name;
    if (data != Py_None) {
      state->data = Ref::borrow(data);
    } else if (state->file_name.empty()) {
      throw Error(ErrorCode::kUsage, "the file name is empty");
    }
    const auto known = safetensors_profile_from_name(profile);
    if (!known) throw Error(ErrorCode::kUsage, "the profile is \"spec\" or \"library\"");
    const auto open = [&] {
      OpenOptions options;
      options.file_name = file_name;
      if (data != Py_None) {
        const std::string_view bytes = view_of_bytes(data);
        options.data = std::as_bytes(std::span(bytes));
      }
      options.profile = *known;
      options.read.key = key_source(key, passphrase);
      options.read.io_path = io;
      options.read.data_file_name = data_file;
      options.read.threads = threads;
      options.mapped = mapped != 0;
      bool has_begun = false;
      // An index may be long, and a network file system slow. Only a wait for a server can be cancelled.
      Meter meter;
      run_blocking({.meter = meter, .total_bytes = 0, .may_wait = is_url(options.file_name)}, [&] {
        // The first try may have taken the key.
        if (std::exchange(has_begun, true)) throw Again();
        ModelFile model = find_model(options);
        // Errors name the file in a directory.
        state->file_name = model.file_name;
        try {
          state->model = std::make_shared<OpenModel>(std::move(options), std::move(model));
        } catch (const Error& error) {
          throw FileError{state->file_name, error};
        }
      });
    };
    while (!state->model) {
      try {
        open();
      } catch (const Again&) {
        state->file_name = file_name;
      }
    }
    return object_of(type, std::move(state));
  });
}

PyObject* share(PyObject* self, PyObject*) {
  return method(self, [&](const auto& model) {
    auto state = std::make_unique<ReaderState>();
    state->file_name = state_of(self).file_name;
    state->model = model;
    if (PyObject* const data = state_of(self).data.get(); data != nullptr) state->data = Ref::borrow(data);
    return object_of(Py_TYPE(self), std::move(state));
  });
}

void deallocate(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  delete reinterpret_cast<ReaderObject*>(self)->state;
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject* close(PyObject* self, PyObject*) {
  return guarded({}, [&] {
    state_of(self).model.reset();
    return none();
  });
}

PyObject* names(PyObject* self, PyObject*) {
  return method(self, [](const auto& model) {
    const Ref list = own(PyList_New(0));
    for (std::size_t i = 0; i < model->size(); ++i) append(list, name_object((*model)[i].path));
    return Ref::borrow(list.get());
  });
}

PyObject* describe(PyObject* self, PyObject* arguments) {
  Py_ssize_t tensor = 0;
  if (PyArg_ParseTuple(arguments, "n:describe", &tensor) == 0) return nullptr;
  return method(self, [&](const auto& model) {
    const ModelTensor info = (*model)[tensor_of(*model, tensor)];
    const Ref dtype = info.dtype.name.empty() ? none() : text(info.dtype.name);
    const Ref stored = text(info.stored_dtype);
    const Ref shape = shape_tuple(info.shape);
    const Ref size = number(info.bytes);
    const Ref meta = truth(info.meta);
    const Ref kind = text(info.kind);
    const Ref big_endian = truth(info.dtype.big_endian && info.dtype.item_bytes > 1);
    return own(
        PyTuple_Pack(7, dtype.get(), stored.get(), shape.get(), size.get(), meta.get(), kind.get(), big_endian.get()));
  });
}

Ref list_of_buffers(std::vector<TensorMemory> loaded) {
  Ref list = own(PyList_New(0));
  for (TensorMemory& memory : loaded) append(list, make_buffer(std::move(memory)));
  return list;
}

PyObject* load(PyObject* self, PyObject* arguments) {
  const char* verify = nullptr;
  int huge_pages = 1;
  PyObject* progress = nullptr;
  if (PyArg_ParseTuple(arguments, "spO:load", &verify, &huge_pages, &progress) == 0) return nullptr;
  return method(self, [&](const auto& model) {
    const Verification checks = verification(verify);
    std::vector<TensorMemory> loaded;
    run_on(*model, model->file_bytes(), progress, [&] {
      loaded = model->load(checks, huge_pages != 0 ? HostMemory::Pages::kHuge : HostMemory::Pages::kSmall);
    });
    return list_of_buffers(std::move(loaded));
  });
}

PyObject* read(PyObject* self, PyObject* arguments) {
  Py_ssize_t tensor = 0;
  const char* verify = nullptr;
  PyObject* progress = nullptr;
  if (PyArg_ParseTuple(arguments, "nsO:read", &tensor, &verify, &progress) == 0) return nullptr;
  return method(self, [&](const auto& model) {
    const std::size_t i = tensor_of(*model, tensor);
    const Verification checks = verification(verify);
    TensorMemory memory;
    const std::uint64_t bytes = model->is_mapped() ? 0 : (*model)[i].bytes;
    run_on(*model, bytes, progress, [&] { memory = model->read(i, checks); });
    return make_buffer(std::move(memory));
  });
}

PyObject* load_into_device(PyObject* self, PyObject* arguments) {
  int device = 0;
  const char* verify = nullptr;
  PyObject* progress = nullptr;
  if (PyArg_ParseTuple(arguments, "isO:load_into_device", &device, &verify, &progress) == 0) return nullptr;
  return method(self, [&](const auto& model) {
    const Verification checks = verification(verify);
    std::vector<TensorMemory> loaded;
    run_on(*model, model->file_bytes(), progress, [&] { loaded = model->load_into_device(checks, device); });
    return list_of_buffers(std::move(loaded));
  });
}

PyObject* read_into_device(PyObject* self, PyObject* arguments) {
  Py_ssize_t tensor = 0;
  int device = 0;
  const char* verify = nullptr;
  PyObject* progress = nullptr;
  if (PyArg_ParseTuple(arguments, "nisO:read_into_device", &tensor, &device, &verify, &progress) == 0) return nullptr;
  return method(self, [&](const auto& model) {
    const std::size_t i = tensor_of(*model, tensor);
    const Verification checks = verification(verify);
    TensorMemory memory;
    run_on(*model, (*model)[i].bytes, progress, [&] { memory = model->read_into_device(i, checks, device); });
    return make_buffer(std::move(memory));
  });
}

std::vector<std::uint64_t> numbers_of(PyObject* tuple) {
  if (!PyTuple_Check(tuple)) {
    PyErr_SetString(PyExc_TypeError, "a tuple of numbers is needed");
    throw PythonError{};
  }
  std::vector<std::uint64_t> result;
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); ++i) result.push_back(number_of(PyTuple_GetItem(tuple, i)));
  return result;
}

// From a list of (tensor, begin, end), in which begin and end are tuples of numbers, or None for the whole tensor.
std::vector<Slice> slices_of(const OpenModel& model, PyObject* list) {
  std::vector<Slice> slices;
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    PyObject *begin = nullptr, *end = nullptr;
    Py_ssize_t tensor = 0;
    if (PyArg_ParseTuple(PyList_GetItem(list, i), "nOO:slice", &tensor, &begin, &end) == 0) throw PythonError{};
    const std::size_t number = tensor_of(model, tensor);
    slices.push_back(begin == Py_None ? model.whole(number) : Slice{number, numbers_of(begin), numbers_of(end), false});
  }
  return slices;
}

PyObject* read_slices(PyObject* self, PyObject* arguments) {
  PyObject *list = nullptr, *device = nullptr, *progress = nullptr;
  int huge_pages = 1;
  if (PyArg_ParseTuple(arguments, "O!OpO:read_slices", &PyList_Type, &list, &device, &huge_pages, &progress) == 0) {
    return nullptr;
  }
  return method(self, [&](const auto& model) {
    std::optional<int> gpu;
    if (device != Py_None) gpu = static_cast<int>(number_of(device));
    const std::vector<Slice> slices = slices_of(*model, list);
    std::vector<TensorMemory> read;
    run_on(*model, model->bytes_of(slices), progress, [&] {
      read = model->read_slices(slices, huge_pages != 0 ? HostMemory::Pages::kHuge : HostMemory::Pages::kSmall, gpu);
    });
    return list_of_buffers(std::move(read));
  });
}

// From a list of (tensor, address, size in bytes, whether it is memory of a GPU).
std::vector<ReadTarget> targets_of(const OpenModel& model, PyObject* list) {
  std::vector<ReadTarget> targets;
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    Py_ssize_t tensor = 0;
    std::uint64_t address = 0, bytes = 0;
    int on_gpu = 0;
    if (PyArg_ParseTuple(PyList_GetItem(list, i), "nO&O&p:target", &tensor, convert_u64, &address, convert_u64, &bytes,
                         &on_gpu) == 0) {
      throw PythonError{};
    }
    targets.push_back({tensor_of(model, tensor),
                       {reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address)),
                        static_cast<std::size_t>(bytes), on_gpu != 0 ? MemoryKind::kDevice : MemoryKind::kHost}});
  }
  return targets;
}

PyObject* read_into(PyObject* self, PyObject* arguments) {
  PyObject *list = nullptr, *progress = nullptr;
  const char* verify = nullptr;
  if (PyArg_ParseTuple(arguments, "O!sO:read_into", &PyList_Type, &list, &verify, &progress) == 0) return nullptr;
  return method(self, [&](const auto& model) {
    const std::vector<ReadTarget> targets = targets_of(*model, list);
    const Verification checks = verification(verify);
    std::uint64_t bytes = 0;
    for (const ReadTarget& target : targets) bytes += target.out.size;
    run_on(*model, bytes, progress, [&] { model->read_into(targets, checks); });
    return none();
  });
}

PyObject* verify(PyObject* self, PyObject* arguments) {
  PyObject* progress = nullptr;
  if (PyArg_ParseTuple(arguments, "O:verify", &progress) == 0) return nullptr;
  return method(self, [&](const auto& model) {
    run_on(*model, model->file_bytes(), progress, [&] { model->verify(); });
    return none();
  });
}

PyObject* check_loaded(PyObject* self, PyObject* arguments) {
  PyObject* buffers = nullptr;
  const char* verify = nullptr;
  if (PyArg_ParseTuple(arguments, "Os:check_loaded", &buffers, &verify) == 0) return nullptr;
  return method(self, [&](const auto& model) {
    const Verification checks = verification(verify);
    if (!PyList_Check(buffers)) throw Error(ErrorCode::kUsage, "a list of buffers is needed");
    std::vector<TensorMemory> loaded;
    for (Py_ssize_t i = 0; i < PyList_Size(buffers); ++i) {
      loaded.push_back(memory_of_buffer(PyList_GetItem(buffers, i)));
    }
    run_on(*model, model->file_bytes(), nullptr, [&] { model->check_loaded(loaded, checks); });
    return none();
  });
}

PyObject* canonical(PyObject* self, PyObject* arguments) {
  PyObject* progress = nullptr;
  if (PyArg_ParseTuple(arguments, "O:canonical", &progress) == 0) return nullptr;
  return method(self, [&](const auto& model) {
    std::string json;
    run_on(*model, model->file_bytes(), progress, [&] {
      json = model->is_safetensors() ? canonical_json(model->safetensors()) : canonical_json(model->tensors());
    });
    return text(json);
  });
}

// What the file says about itself, as a dict.
PyObject* summary(PyObject* self, PyObject*) {
  return method(self, [](const auto& model) {
    Ref dict = own(PyDict_New());
    set(dict, "file_bytes", number(model->file_bytes()));
    Ref metadata = own(PyDict_New());
    if (model->is_safetensors()) {
      for (const auto& [key, value] : model->safetensors().metadata()) {
        check(PyDict_SetItem(metadata.get(), text(key).get(), text(value).get()));
      }
      set(dict, "layout", text("safetensors"));
      set(dict, "data_version", none());
      set(dict, "encrypted", truth(false));
    } else {
      const Reader& reader = model->tensors();
      set(dict, "layout", text(layout_name(reader.layout())));
      set(dict, "data_version", number(reader.header().data_version));
      set(dict, "encrypted", truth(reader.header().encrypted));
    }
    set(dict, "metadata", metadata);
    return dict;
  });
}

PyObject* get_closed(PyObject* self, void*) {
  return guarded({}, [&] { return truth(state_of(self).model == nullptr); });
}

PyMethodDef methods[] = {
    {"close", close, METH_NOARGS, "Close the file. Tensors that were read stay valid."},
    {"share", share, METH_NOARGS, "Return another Reader of the open file, which is closed by itself."},
    {"names", names, METH_NOARGS, "Return the names of all tensors, in file order."},
    {"describe", describe, METH_VARARGS,
     "Return (dtype, stored dtype, shape, bytes, meta, kind, big-endian) of a tensor."},
    {"load", load, METH_VARARGS, "Read all tensors: load(verify, huge_pages, progress)."},
    {"load_into_device", load_into_device, METH_VARARGS,
     "Read all tensors into GPU memory: load_into_device(device, verify, progress)."},
    {"check_loaded", check_loaded, METH_VARARGS,
     "Verify what load or load_into_device has returned: check_loaded(buffers, verify)."},
    {"read_into_device", read_into_device, METH_VARARGS,
     "Read a tensor into GPU memory: read_into_device(number, device, verify, progress)."},
    {"read", read, METH_VARARGS, "Read a tensor: read(number, verify, progress)."},
    {"read_into", read_into, METH_VARARGS,
     "Read tensors into memory: read_into([(tensor, address, bytes, is of a GPU)], verify, progress)."},
    {"read_slices", read_slices, METH_VARARGS,
     "Read parts of tensors: read_slices([(tensor, begin, end)], device, huge_pages, progress)."},
    {"verify", verify, METH_VARARGS, "Check everything: verify(progress)."},
    {"canonical", canonical, METH_VARARGS, "Return the canonical JSON: canonical(progress)."},
    {"summary", summary, METH_NOARGS, "Return what the file says about itself."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef members[] = {{"closed", get_closed, nullptr, "Whether close was called.", nullptr},
                         {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(create)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, members},
                       {Py_tp_doc, const_cast<char*>("An open model file; see tzmark.Reader.")},
                       {0, nullptr}};
PyType_Spec spec = {"tzmark._tzmark.Reader", sizeof(ReaderObject), 0, Py_TPFLAGS_DEFAULT, slots};

void require_reader(PyObject* object) {
  if (Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(reader_type)) return;
  PyErr_SetString(PyExc_TypeError, "a Reader is needed");
  throw PythonError{};
}

}  // namespace

void add_reader_type(PyObject* module) {
  reader_type = own(PyType_FromSpec(&spec)).release();
  check(PyModule_AddObjectRef(module, "Reader", reader_type));
}

std::shared_ptr<OpenModel> model_of(PyObject* reader) {
  require_reader(reader);
  return open_model(state_of(reader));
}

const std::string& file_name_of(PyObject* reader) {
  require_reader(reader);
  return state_of(reader).file_name;
}

}  // namespace tzmark::py
