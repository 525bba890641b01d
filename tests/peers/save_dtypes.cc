// Saves a checkpoint with tensors of the dtypes that are named: each as a matrix, as a scalar and without elements, the
// model as they are and the optimizer in reverse order. checkpoint_test.py lets the reference library of safetensors
// load it.
//
// usage: save_dtypes DIR DTYPE...
// Byte i of the tensor of number n is (31 * n + 7 * i) mod 256.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "tzmark/checkpoint.h"
#include "tzmark/dtype.h"
#include "tzmark/error.h"
#include "tzmark/format.h"

namespace {

const std::vector<std::uint64_t> kShapes[] = {{3, 5}, {}, {0, 4}};

int save(const std::string& directory, const std::vector<std::string>& dtypes) {
  std::deque<std::vector<std::byte>> memory;
  std::vector<tzmark::CheckpointTensor> tensors;
  for (const std::string& dtype : dtypes) {
    for (const auto& shape : kShapes) {
      const std::size_t number = tensors.size();
      auto& bytes =
          memory.emplace_back(tzmark::nominal_bytes(shape, tzmark::dtype_from_name(dtype).item_bytes).value());
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(31 * number + 7 * i);
      tensors.push_back({dtype + "." + std::to_string(shape.size()) + "." + std::to_string(number), dtype, shape,
                         tzmark::ConstBuffer(bytes.data(), bytes.size())});
    }
  }
  std::vector<tzmark::CheckpointTensor> reversed = tensors;
  std::ranges::reverse(reversed);
  tzmark::AsyncCheckpointer checkpointer;
  checkpointer.save(directory, tensors, reversed, tzmark::TrainingState());
  checkpointer.wait();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: save_dtypes DIR DTYPE...\n", stderr);
    return 2;
  }
  try {
    return save(argv[1], std::vector<std::string>(argv + 2, argv + argc));
  } catch (const tzmark::Error& error) {
    std::fprintf(stderr, "save_dtypes: %s\n", error.what());
    return static_cast<int>(error.error_class());
  }
}
