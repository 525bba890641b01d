// tzmark._tzmark.Buffer: a tensor in memory that Python reads without copying.
#include "memory.h"

#include <new>

#include "dlpack.h"
#include "errors.h"
#include "tzmark/error.h"

namespace tzmark::py {
namespace {

constexpr std::size_t kArrayDimensionsMax = 32;

struct Buffer {
  PyObject_HEAD TensorMemory* memory;
};

PyObject* buffer_type = nullptr;

const TensorMemory& memory_of(PyObject* self) { return *reinterpret_cast<Buffer*>(self)->memory; }

void deallocate(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  delete reinterpret_cast<Buffer*>(self)->memory;
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// A consumer asks hasattr which kind of memory it is.
void require_place(const TensorMemory& memory, bool on_device) {
  if (memory.device.has_value() == on_device) return;
  PyErr_SetString(PyExc_AttributeError, on_device ? "the memory is that of the host" : "the memory is that of a GPU");
  throw PythonError{};
}

PyObject* array_interface(PyObject* self, void*) {
  return guarded({}, [&] {
    const TensorMemory& memory = memory_of(self);
    require_place(memory, false);
    // numpy 1.x does not check, and writes past its own arrays.
    if (memory.shape.size() > kArrayDimensionsMax) {
      throw Error(ErrorCode::kUnavailable, "the array interface is limited to " + std::to_string(kArrayDimensionsMax) +
                                               " dimensions, and the tensor has " +
                                               std::to_string(memory.shape.size()));
    }
    // numpy refuses a null pointer.
    alignas(64) static std::byte nothing[64];
    const void* const data = memory.bytes == 0 && !memory.broadcast ? nothing : memory.data;
    Ref result = own(PyDict_New());
    set(result, "version", number(3));
    set(result, "typestr", text(numpy_type(memory.dtype)));
    set(result, "shape", shape_tuple(memory.shape));
    const Ref address = own(PyLong_FromVoidPtr(const_cast<void*>(data)));
    const Ref read_only = truth(memory.broadcast);
    set(result, "data", own(PyTuple_Pack(2, address.get(), read_only.get())));
    if (memory.broadcast) {
      set(result, "strides", shape_tuple(std::vector<std::uint64_t>(memory.shape.size(), 0)));
    }
    return result;
  });
}

// Has no stream: the bytes were in place before the object was made.
PyObject* cuda_array_interface(PyObject* self, void*) {
  return guarded({}, [&] {
    const TensorMemory& memory = memory_of(self);
    require_place(memory, true);
    Ref result = own(PyDict_New());
    set(result, "version", number(3));
    set(result, "typestr", text(numpy_type(memory.dtype)));
    set(result, "shape", shape_tuple(memory.shape));
    const Ref address = own(PyLong_FromVoidPtr(memory.bytes == 0 ? nullptr : memory.data));
    const Ref read_only = truth(false);
    set(result, "data", own(PyTuple_Pack(2, address.get(), read_only.get())));
    set(result, "stream", none());
    return result;
  });
}

// Ignores stream, because the bytes were in place before the object was made, and max_version.
PyObject* dlpack(PyObject* self, PyObject* arguments, PyObject* keywords) {
  PyObject *stream = Py_None, *max_version = Py_None, *place = Py_None, *copy = Py_None;
  static char* names[] = {const_cast<char*>("stream"), const_cast<char*>("max_version"), const_cast<char*>("dl_device"),
                          const_cast<char*>("copy"), nullptr};
  if (PyArg_ParseTupleAndKeywords(arguments, keywords, "|O$OOO:__dlpack__", names, &stream, &max_version, &place,
                                  &copy) == 0) {
    return nullptr;
  }
  return guarded({}, [&] {
    if (place != Py_None) {
      const int is_here = PyObject_RichCompareBool(place, dlpack_device(memory_of(self)).get(), Py_EQ);
      check(is_here);
      if (is_here == 0) {
        PyErr_SetString(PyExc_BufferError, "the memory is not copied to another device");
        throw PythonError{};
      }
    }
    const int is_copy = PyObject_IsTrue(copy);
    check(is_copy);
    const TensorMemory& memory = memory_of(self);
    if (is_copy == 0 || memory.broadcast) return make_dlpack(memory);
    TensorMemory own_memory;
    {
      const Unlocked unlocked;
      own_memory = copied(memory);
    }
    return make_dlpack(own_memory);
  });
}
PyObject* device(PyObject* self, PyObject*) {
  return guarded({}, [&] { return dlpack_device(memory_of(self)); });
}

PyObject* get_shape(PyObject* self, void*) {
  return guarded({}, [&] { return shape_tuple(memory_of(self).shape); });
}
PyObject* get_dtype(PyObject* self, void*) {
  return guarded({}, [&] { return memory_of(self).dtype.name.empty() ? none() : text(memory_of(self).dtype.name); });
}
PyObject* get_bytes(PyObject* self, void*) {
  return guarded({}, [&] { return number(memory_of(self).bytes); });
}
PyObject* get_meta(PyObject* self, void*) {
  return guarded({}, [&] { return truth(memory_of(self).broadcast); });
}
PyObject* get_big_endian(PyObject* self, void*) {
  return guarded({}, [&] {
    const Dtype& dtype = memory_of(self).dtype;
    return truth(dtype.big_endian && dtype.item_bytes > 1);
  });
}

// The same memory as bytes, for consumers that lack the type.
PyObject* as_bytes(PyObject* self, PyObject*) {
  return guarded({}, [&] {
    const TensorMemory& memory = memory_of(self);
    return make_buffer({.owner = memory.owner,
                        .data = memory.data,
                        .bytes = memory.broadcast ? 0 : memory.bytes,
                        .shape = {memory.broadcast ? 0 : memory.bytes},
                        .dtype = dtype_from_name("uint8"),
                        .device = memory.device});
  });
}

PyMethodDef methods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(dlpack)), METH_VARARGS | METH_KEYWORDS,
     "Return a DLPack capsule that shares the memory."},
    {"__dlpack_device__", device, METH_NOARGS, "Return (1, 0) for host memory, (2, N) for that of GPU N."},
    {"as_bytes", as_bytes, METH_NOARGS, "Return the same memory as a buffer of dtype uint8 and one dimension."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef members[] = {
    {"__array_interface__", array_interface, nullptr, "numpy's description of host memory.", nullptr},
    {"__cuda_array_interface__", cuda_array_interface, nullptr, "The same of GPU memory.", nullptr},
    {"shape", get_shape, nullptr, "The dimensions.", nullptr},
    {"dtype", get_dtype, nullptr, "torch's name of the type, without 'torch.'; None for a type that torch lacks.",
     nullptr},
    {"nbytes", get_bytes, nullptr, "The size of the data in bytes; 0 for a meta tensor.", nullptr},
    {"meta", get_meta, nullptr, "Whether the file stores no values: the elements read as zeros.", nullptr},
    {"big_endian", get_big_endian, nullptr, "Whether the bytes of each element are in big-endian order.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, members},
                       {Py_tp_doc, const_cast<char*>("A tensor in memory: see __array_interface__ and __dlpack__.")},
                       {0, nullptr}};
PyType_Spec spec = {"tzmark._tzmark.Buffer", sizeof(Buffer), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

}  // namespace

void add_buffer_type(PyObject* module) {
  buffer_type = own(PyType_FromSpec(&spec)).release();
  check(PyModule_AddObjectRef(module, "Buffer", buffer_type));
}

Ref make_buffer(TensorMemory memory) {
  auto content = std::make_unique<TensorMemory>(std::move(memory));
  auto* const type = reinterpret_cast<PyTypeObject*>(buffer_type);
  Ref object = own(reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0));
  reinterpret_cast<Buffer*>(object.get())->memory = content.release();
  return object;
}

const TensorMemory& memory_of_buffer(PyObject* object) {
  if (Py_TYPE(object) != reinterpret_cast<PyTypeObject*>(buffer_type)) {
    PyErr_SetString(PyExc_TypeError, "a Buffer of this module is needed");
    throw PythonError{};
  }
  return memory_of(object);
}

Ref shape_tuple(std::span<const std::uint64_t> shape) {
  Ref tuple = own(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (std::size_t i = 0; i < shape.size(); ++i) {
    check(PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), number(shape[i]).release()));
  }
  return tuple;
}

std::string numpy_type(const Dtype& dtype) {
  if (dtype.opaque || dtype.foreign()) return "|V" + std::to_string(dtype.item_bytes);
  return dtype.wire;
}

}  // namespace tzmark::py
