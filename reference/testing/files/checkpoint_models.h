// For tests: small models of every dtype, what a checkpoint of them has to give back, and rank groups of threads.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "testing/caught.h"
#include "testing/files/test_directory.h"
#include "tzmark/checkpoint.h"
#include "tzmark/dtype.h"

namespace tzmark::test {

// Tensors that own their bytes.
class Model {
 public:
  // seed: of the content.
  void add(const std::string& name, const std::string& dtype, std::vector<std::uint64_t> shape, std::uint64_t seed) {
    std::uint64_t bytes = dtype_from_name(dtype).item_bytes;
    for (const std::uint64_t dimension : shape) bytes *= dimension;
    add(name, dtype, std::move(shape), random_bytes(static_cast<std::size_t>(bytes), seed));
  }
  void add(const std::string& name, const std::string& dtype, std::vector<std::uint64_t> shape, Bytes content) {
    bytes_.push_back(std::make_unique<Bytes>(std::move(content)));
    views_.push_back({name, dtype, std::move(shape), std::span<const std::byte>(*bytes_.back())});
  }

  const std::vector<CheckpointTensor>& views() const { return views_; }
  operator TensorViews() const { return views_; }
  void overwrite(std::byte value) {
    for (const auto& bytes : bytes_) std::fill(bytes->begin(), bytes->end(), value);
  }
  // A copy of what the tensors hold now, by name.
  std::map<std::string, Bytes> content() const {
    std::map<std::string, Bytes> all;
    for (std::size_t i = 0; i < views_.size(); ++i) all[views_[i].name] = *bytes_[i];
    return all;
  }

 private:
  std::vector<std::unique_ptr<Bytes>> bytes_;
  std::vector<CheckpointTensor> views_;
};

inline Model small_model(std::uint64_t seed) {
  Model model;
  model.add("layer.weight", "float32", {8, 16}, seed);
  model.add("layer.bias", "bfloat16", {16}, seed + 1);
  model.add("steps", "int64", {}, seed + 2);
  return model;
}
inline Model small_optimizer(std::uint64_t seed) {
  Model optimizer;
  optimizer.add("layer.weight.m", "float32", {8, 16}, seed + 10);
  optimizer.add("layer.weight.v", "float32", {8, 16}, seed + 11);
  return optimizer;
}

inline TrainingState state_at(std::uint64_t step) {
  TrainingState state;
  state.step = step;
  state.epoch = step / 10;
  state.learning_rate = 0.25;
  state.metadata = {{"run", "a"}, {"note", "\xc3\xa9"}};
  return state;
}

// By name, so that order does not matter.
inline std::map<std::string, Bytes> content_of(const std::vector<CheckpointTensor>& tensors) {
  std::map<std::string, Bytes> all;
  for (const CheckpointTensor& tensor : tensors) {
    all[tensor.name] = Bytes(tensor.data.bytes().begin(), tensor.data.bytes().end());
  }
  return all;
}

// As content_of, with dtype and shape.
inline std::map<std::string, std::pair<std::string, std::vector<std::uint64_t>>> kinds_of(TensorViews tensors) {
  std::map<std::string, std::pair<std::string, std::vector<std::uint64_t>>> all;
  for (const CheckpointTensor& tensor : tensors) all[tensor.name] = {tensor.dtype, tensor.shape};
  return all;
}

// What is in a directory, but for the file by which a checkpointer shows itself while it exists.
inline std::vector<std::string> entries_of(const TestDirectory& directory) {
  std::vector<std::string> names = directory.entries();
  std::erase(names, ".tzmark-writer");
  return names;
}

// Ranks that are threads of one process.
class ThreadGroup {
 public:
  ThreadGroup(std::string save_id, unsigned ranks) : save_id_(std::move(save_id)), ranks_(ranks) {}

  SaveGroup group() {
    return {save_id_, [this](bool mine_ok) { return agree(mine_ok); }};
  }
  unsigned calls() const { return calls_; }

 private:
  bool agree(bool mine_ok) {
    std::unique_lock lock(mutex_);
    ++calls_;
    all_ok_ = all_ok_ && mine_ok;
    const unsigned round = round_;
    if (++arrived_ == ranks_) {
      result_ = all_ok_;
      all_ok_ = true;
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return round_ != round; });
    }
    return result_;
  }

  const std::string save_id_;
  const unsigned ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned arrived_ = 0, round_ = 0, calls_ = 0;
  bool all_ok_ = true, result_ = false;
};

}  // namespace tzmark::test
