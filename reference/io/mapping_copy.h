// Copies between memory and a mapping of a file, whose pages may be gone or unreadable when they are touched.
//
// The kernel reports such a page by a signal (SIGBUS), which ends the process unless catch_bus_errors (tzmark/io.h) has
// installed its handler. The handler leaves the copy by siglongjmp: a copy of bytes holds no lock and has no
// destructor.
#pragma once

#include <cstddef>
#include <optional>

namespace tzmark {

// Copy all bytes, or return the position in the mapping, from its first byte to be copied on, of one that cannot be
// reached; any of the other bytes may then be copied. Thread-safe.
std::optional<std::size_t> copy_from_mapping(std::byte* to, const std::byte* mapped, std::size_t bytes);
std::optional<std::size_t> copy_to_mapping(std::byte* mapped, const std::byte* from, std::size_t bytes);

}  // namespace tzmark
