// Reads the counters; see disturbance.h.
#include "harness/disturbance.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>

#include "harness/small_file.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

// The next number of the text, which is then behind it; 0 without one.
std::uint64_t take_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc() ? number : 0;
}

std::uint64_t ns_of(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * kSecondNs + static_cast<std::uint64_t>(time.tv_usec) * 1'000;
}

MachineUse machine_use() {
  MachineUse use;
  parse_stat(read_text("/proc/stat").value_or(""), static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK)), use);
  use.cpu_pressure_ns = parse_pressure(read_text("/proc/pressure/cpu").value_or(""));
  use.io_pressure_ns = parse_pressure(read_text("/proc/pressure/io").value_or(""));
  use.memory_pressure_ns = parse_pressure(read_text("/proc/pressure/memory").value_or(""));
  use.memory_reports = parse_memory_reports(read_text("/proc/interrupts").value_or(""));
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    ::getrusage(who, &usage);
    use.own_user_ns += ns_of(usage.ru_utime);
    use.involuntary_switches += static_cast<std::uint64_t>(usage.ru_nivcsw);
    use.minor_faults += static_cast<std::uint64_t>(usage.ru_minflt);
  }
  return use;
}

// Counters of ticks may run ahead of those of nanoseconds.
std::uint64_t less(std::uint64_t a, std::uint64_t b) { return a - std::min(a, b); }

std::optional<std::uint64_t> less(std::optional<std::uint64_t> a, std::optional<std::uint64_t> b) {
  return a && b ? std::optional(less(*a, *b)) : std::nullopt;
}

void add(std::optional<std::uint64_t>& sum, std::optional<std::uint64_t> more) {
  if (more) sum = sum.value_or(0) + *more;
}

}  // namespace

bool parse_stat(std::string_view stat, std::uint64_t ticks_per_second, MachineUse& use) {
  if (!stat.starts_with("cpu ")) return false;
  stat = stat.substr(0, stat.find('\n'));
  const std::uint64_t tick_ns = kSecondNs / ticks_per_second;
  // user, nice, system, idle, iowait, irq, softirq, steal
  use.user_ns = take_number(stat) * tick_ns;
  use.user_ns += take_number(stat) * tick_ns;
  for (int i = 0; i < 5; ++i) take_number(stat);
  use.steal_ns = take_number(stat) * tick_ns;
  return true;
}

std::optional<std::uint64_t> parse_pressure(std::string_view pressure) {
  constexpr std::string_view kTotal = "total=";
  const std::size_t at = pressure.substr(0, pressure.find('\n')).find(kTotal);
  if (!pressure.starts_with("some ") || at == std::string_view::npos) return {};
  std::string_view number = pressure.substr(at + kTotal.size());
  return take_number(number) * 1'000;
}

std::uint64_t parse_memory_reports(std::string_view interrupts) {
  constexpr std::string_view kQueue = "-reporting_vq";
  std::uint64_t reports = 0;
  while (!interrupts.empty()) {
    std::string_view line = interrupts.substr(0, interrupts.find('\n'));
    interrupts.remove_prefix(std::min(interrupts.size(), line.size() + 1));
    if (!line.ends_with(kQueue)) continue;
    // " 32:        798          0 PCI-MSIX-0000:00:01.0   4-edge      virtio0-reporting_vq": a count per core
    line.remove_prefix(std::min(line.find(':'), line.size() - 1) + 1);
    for (;;) {
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      const std::size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
      if (digits == 0 || digits == line.size() || line[digits] != ' ') break;
      reports += take_number(line);
    }
  }
  return reports;
}

Disturbance& Disturbance::operator+=(const Disturbance& more) {
  elapsed_ns += more.elapsed_ns;
  other_user_ns += more.other_user_ns;
  steal_ns += more.steal_ns;
  add(cpu_pressure_ns, more.cpu_pressure_ns);
  add(io_pressure_ns, more.io_pressure_ns);
  add(memory_pressure_ns, more.memory_pressure_ns);
  involuntary_switches += more.involuntary_switches;
  minor_faults += more.minor_faults;
  memory_reports += more.memory_reports;
  return *this;
}

bool is_disturbed(const Disturbance& disturbance) {
  constexpr std::uint64_t kTicksNs = 20'000'000;
  const std::uint64_t taken_ns = disturbance.other_user_ns + disturbance.steal_ns;
  return taken_ns > kTicksNs && taken_ns > disturbance.elapsed_ns / 10;
}

DisturbanceWatch::DisturbanceWatch() : before_(machine_use()), begin_ns_(now_ns()) {}

Disturbance DisturbanceWatch::stop(std::uint64_t user_elsewhere_ns) const {
  const std::uint64_t elapsed_ns = now_ns() - begin_ns_;
  const MachineUse after = machine_use();
  const std::uint64_t own_ns = less(after.own_user_ns, before_.own_user_ns) + user_elsewhere_ns;
  return {.elapsed_ns = elapsed_ns,
          .other_user_ns = less(less(after.user_ns, before_.user_ns), own_ns),
          .steal_ns = less(after.steal_ns, before_.steal_ns),
          .cpu_pressure_ns = less(after.cpu_pressure_ns, before_.cpu_pressure_ns),
          .io_pressure_ns = less(after.io_pressure_ns, before_.io_pressure_ns),
          .memory_pressure_ns = less(after.memory_pressure_ns, before_.memory_pressure_ns),
          .involuntary_switches = after.involuntary_switches - before_.involuntary_switches,
          .minor_faults = after.minor_faults - before_.minor_faults,
          .memory_reports = less(after.memory_reports, before_.memory_reports)};
}

}  // namespace tzmark::bench
