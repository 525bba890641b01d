// tzmark._tzmark.Buffer: a tensor in memory of the host or of a GPU that Python reads without copying.
//
// It has __array_interface__ for numpy, or __cuda_array_interface__, and __dlpack__ for everything else. All keep the
// memory alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "py.h"
#include "tzmark/dtype.h"

namespace tzmark::py {

struct TensorMemory {
  std::shared_ptr<const void> owner;  // of the memory; several tensors share one
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> shape;
  Dtype dtype;
  // All elements are the same one, at data, and must not be written: a tensor without stored values.
  bool broadcast = false;
  std::optional<int> device = {};  // the GPU that the memory is of; nothing for host memory
};

// Registers the type. Throws PythonError.
void add_buffer_type(PyObject* module);

Ref make_buffer(TensorMemory memory);
// The memory of a Buffer, valid as long as that. Throws PythonError if the object is none.
const TensorMemory& memory_of_buffer(PyObject* object);

// Returns the same tensor in memory of its own. REQUIRES: it is not broadcast.
TensorMemory copied(TensorMemory memory);

// A tuple of numbers.
Ref shape_tuple(std::span<const std::uint64_t> shape);

// The type string of numpy's array interface. A type that numpy lacks is void, of the size of its elements.
std::string numpy_type(const Dtype& dtype);

}  // namespace tzmark::py
