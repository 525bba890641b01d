// What disturbed a measurement: time that other processes and the hypervisor took from it, and memory that the
// hypervisor took back.
//
// Thread-safe. Sources: proc(5) for /proc/stat (in ticks of 10 ms), /proc/pressure and /proc/interrupts, getrusage(2);
// drivers/virtio/virtio_balloon.c of Linux for the queue by which a guest reports its free memory to the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tzmark::bench {

// The counters of the machine and of this process, since boot and since the process began.
struct MachineUse {
  std::uint64_t user_ns = 0;      // all processes; what the kernel does for them is not part of it
  std::uint64_t own_user_ns = 0;  // this process and the children that it waited for
  std::uint64_t steal_ns = 0;     // the hypervisor gave it to others
  // Some task waited for it; nothing if the kernel does not count it.
  std::optional<std::uint64_t> cpu_pressure_ns, io_pressure_ns, memory_pressure_ns;
  std::uint64_t involuntary_switches = 0;
  std::uint64_t minor_faults = 0;
  std::uint64_t memory_reports = 0;  // the host took free memory back; 0 where no interrupt tells it
};

// The difference of two uses.
struct Disturbance {
  std::uint64_t elapsed_ns = 0;
  std::uint64_t other_user_ns = 0;  // user time of other processes
  std::uint64_t steal_ns = 0;
  std::optional<std::uint64_t> cpu_pressure_ns = {}, io_pressure_ns = {}, memory_pressure_ns = {};
  std::uint64_t involuntary_switches = 0;
  std::uint64_t minor_faults = 0;
  std::uint64_t memory_reports = 0;

  Disturbance& operator+=(const Disturbance& more);
};

// The rule by which samples are repeated: others took more than two ticks and more than a tenth of one core. It looks
// at no ratio, and at the measured time only in so far as a longer sample bears more. User time alone, because the
// kernel also works for the subject itself: it writes pages back and polls queues. Memory reports do not count: they
// follow memory that the subject itself freed, and a slow sample has more of them.
bool is_disturbed(const Disturbance& disturbance);

// Parses /proc/stat: sets user_ns and steal_ns. False without its first line.
bool parse_stat(std::string_view stat, std::uint64_t ticks_per_second, MachineUse& use);
// Parses a file of /proc/pressure: nanoseconds in which some task waited.
std::optional<std::uint64_t> parse_pressure(std::string_view pressure);

// Parses /proc/interrupts: how often the host has taken reported free memory, summed over all cores.
std::uint64_t parse_memory_reports(std::string_view interrupts);

// Watches from construction to stop().
class DisturbanceWatch {
 public:
  DisturbanceWatch();
  // user_elsewhere_ns: user time since construction of processes that work for the subject and still run. That of
  // processes that have ended and that this one has waited for is known.
  Disturbance stop(std::uint64_t user_elsewhere_ns = 0) const;

 private:
  MachineUse before_;
  std::uint64_t begin_ns_;
};

}  // namespace tzmark::bench
