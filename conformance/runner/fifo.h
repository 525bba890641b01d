// A FIFO that a thread fills: a file that a reader can open and read once, and never seek in.
//
// Thread-safety: one object belongs to one thread, and has another of its own.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <thread>

namespace tzmark::conformance {

class Fifo {
 public:
  // Whoever opens path first gets the content, followed by its end; who opens it later waits for ever. The content has
  // to outlive the object. Throws EnvironmentError if the FIFO cannot be made.
  Fifo(std::filesystem::path path, std::span<const std::byte> content);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::jthread writer_;
};

}  // namespace tzmark::conformance
