// Where new threads run.
#pragma once

#include <thread>

namespace tzmark {

// The cores that are online, at least 1, as of the first call: the system opens a file for each answer. Thread-safe.
unsigned core_count();

// Moves a thread that the caller has just started away from the caller's core, if both share one and the process may
// use others. The kernel often starts a thread there when other cores have just served interrupts of a disk, and moves
// it only after some of its time slices: on two cores of a virtual machine with Linux 6.18, two threads took turns for
// 10 to 30 ms. The kernel may place both anywhere afterwards. A failure has no effect. Thread-safe.
void separate_from_caller(std::jthread& thread) noexcept;

}  // namespace tzmark
