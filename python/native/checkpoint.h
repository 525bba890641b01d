// tzmark._tzmark.Checkpointer, and loading checkpoints.
#pragma once

#include "py.h"

namespace tzmark::py {

// Registers the type. Throws PythonError.
void add_checkpointer_type(PyObject* module);

// load_checkpoint(directory, rank, world_size, committed_only, io, threads): (state, model, optimizer, sharded). state
// is a dict; model and optimizer are lists of (name, Buffer). world_size 0: a checkpoint that is not sharded.
PyObject* load_checkpoint(PyObject* module, PyObject* arguments);

// checkpoint_candidates(parent): (directory, save id) of committed checkpoints, in the order in which to try them;
// sentences about others; and one that says why one of those may be the newest, or "".
PyObject* checkpoint_candidates(PyObject* module, PyObject* arguments);

// other_writer(parent): a sentence that names another process that saves there, or "".
PyObject* other_writer(PyObject* module, PyObject* arguments);

// clean_checkpoints(parent): (directories removed, sentences about those kept).
PyObject* clean_checkpoints(PyObject* module, PyObject* arguments);

}  // namespace tzmark::py
