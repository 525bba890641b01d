// See remote/core_dumps.h. Documentation: core(5).
#include "remote/core_dumps.h"

#include <span>
#include <string>

#include "io/paths.h"
#include "tzmark/io.h"

namespace tzmark {
namespace {

bool set_core_dump_filter() noexcept {
  try {
    const std::string name = "/proc/self/coredump_filter";
    const auto file = open_file(open_descriptor(name, OpenMode::kModify), name, OpenMode::kModify, "pwrite");
    file->write_at(0, std::as_bytes(std::span<const char>("0", 1)));
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

void exclude_memory_from_core_dumps() noexcept { [[maybe_unused]] static const bool is_set = set_core_dump_filter(); }

}  // namespace tzmark
