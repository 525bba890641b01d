// Writing and converting model files.
#pragma once

#include "py.h"

namespace tzmark::py {

// write(file, tensors, is_safetensors, options, progress): writes arrays in memory to a file, or returns the bytes of
// one if file is None. tensors: (name, kind, dtype, shape, address, bytes) each; their memory outlives the call.
PyObject* write(PyObject* module, PyObject* arguments);

// convert(reader, file, is_safetensors, verify_source, options, progress): copies an open file to a new one.
PyObject* convert(PyObject* module, PyObject* arguments);

}  // namespace tzmark::py
