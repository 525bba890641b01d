// Loading a file by a group of processes together, whose communication Python does.
#pragma once

#include "py.h"

namespace tzmark::py {

// The function of the module. Collective.
PyObject* load_together(PyObject*, PyObject* arguments);

}  // namespace tzmark::py
