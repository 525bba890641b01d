// tzmark._tzmark.Reader: an open model file.
#pragma once

#include <memory>

#include "open_model.h"
#include "py.h"

namespace tzmark::py {

// Registers the type. Throws PythonError.
void add_reader_type(PyObject* module);

// The file that a Reader has open. Throws PythonError (TypeError) for other objects, and Error kUsage for a closed one.
std::shared_ptr<OpenModel> model_of(PyObject* reader);
// Its name; empty for bytes in memory.
const std::string& file_name_of(PyObject* reader);

}  // namespace tzmark::py
