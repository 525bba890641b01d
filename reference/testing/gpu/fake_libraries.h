// For tests: the stand-ins of libcuda and libcufile, chosen before anything is loaded, and a root directory with what
// libcufile reads of the system.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "testing/files/path_test.h"
#include "testing/files/test_directory.h"
#include "testing/gpu/fake.h"
#include "testing/gpu/gpu_test.h"
#include "tzmark/device_memory.h"
#include "tzmark/gpudirect.h"
#include "tzmark/io.h"

namespace tzmark::test {

// A directory that stands for the root of a system that libcufile can use.
class SystemRoot {
 public:
  SystemRoot() {
    std::filesystem::create_directories(directory_ / "run/udev");
    std::filesystem::create_directories(directory_ / "proc/driver/nvidia-fs");
    write_whole(directory_ / "proc/modules", {});
  }

  const std::string& name() const { return directory_.name(); }
  void write(const std::string& file, const std::string& content) const {
    write_whole(name() + file, std::as_bytes(std::span(content)));
  }
  void remove(const std::string& file) const { std::filesystem::remove_all(name() + file); }

 private:
  TestDirectory directory_;
};

// Made by main, before anything is loaded.
class ChosenFakes {
 public:
  ChosenFakes() {
    ::setenv("TZMARK_CUDA_LIBRARY", TZMARK_FAKE_CUDA, 1);
    ::setenv("TZMARK_FAKE_DEVICES", "2", 1);
    ::setenv("TZMARK_CUFILE_LIBRARY", TZMARK_FAKE_CUFILE, 1);
    ::setenv("TZMARK_SYSTEM_ROOT", root_.name().c_str(), 1);
  }

  const SystemRoot& root() const { return root_; }
  FakeOrders& orders() const {
    static FakeOrders* const orders = find_orders();
    return *orders;
  }

 private:
  static FakeOrders* find_orders() {
    void* const library = ::dlopen(TZMARK_FAKE_CUFILE, RTLD_NOW | RTLD_LOCAL);
    void* const symbol = library == nullptr ? nullptr : ::dlsym(library, "tzmark_fake_orders");
    if (symbol == nullptr) throw std::runtime_error(::dlerror());
    return reinterpret_cast<decltype(&tzmark_fake_orders)>(symbol)();
  }

  SystemRoot root_;
};
inline const ChosenFakes& fakes() {
  static const ChosenFakes chosen;
  return chosen;
}

// Each test finds the stand-in without orders, and leaves no file or memory registered. Skipped, with the reason, where
// the directory's file system takes no direct I/O.
class GpuDirectTest : public ::testing::Test {
 protected:
  void SetUp() override {
    forget_orders();
    const auto path = std::ranges::find(io_paths(), "gpudirect", &IoPath::name);
    ASSERT_NE(path, io_paths().end());
    ASSERT_EQ(path->why_unavailable(), "");
    const std::string reason = why_unusable(*path, directory_);
    if (!reason.empty()) GTEST_SKIP() << reason;
    forget_orders();
  }
  void TearDown() override {
    EXPECT_EQ(orders().files_registered, 0);
    EXPECT_EQ(orders().memory_registered, 0);
    forget_orders();
  }

  static FakeOrders& orders() { return fakes().orders(); }
  static void forget_orders() {
    orders().fail_call = -1;
    orders().fail_with = 5030;
    orders().fails_by_errno = false;
    orders().bytes_max = SIZE_MAX;
    orders().interruptions = 0;
    orders().lie = 0;
    orders().route = FakeRoute::kPosix;
    orders().counts_bytes = true;
    orders().statistics_error = 0;
    orders().calls = 0;
    orders().moves_from_registered = 0;
  }

  std::string new_name() { return directory_ / ("file-" + std::to_string(files_++)); }
  std::unique_ptr<File> create() { return open_file(new_name(), OpenMode::kCreate, "gpudirect"); }

  TestDirectory directory_;
  int files_ = 0;
};

// Reads into device memory, and looks what is there.
inline Bytes read_by_device(File& file, std::uint64_t offset, std::size_t count) {
  const DeviceMemory memory(count);
  file.read_at(offset, memory.buffer());
  return on_host(memory);
}

inline void write_by_device(File& file, std::uint64_t offset, const Bytes& content) {
  file.write_at(offset, on_device(content).buffer());
}

}  // namespace tzmark::test
