// Prints results with their bounds, and the ceilings below them; see result_table.h.
#include "cli/result_table.h"

#include <fmt/format.h>

#include <string>

#include "cli/bench_commands.h"
#include "cli/bounds.h"
#include "cli/result_document.h"

namespace tzmark::bench {
namespace {

std::string rate_text(const Interval& rate) {
  const std::string spread = rate.low ? fmt::format("{:.2f} - {:.2f}", *rate.low / 1e9, *rate.high / 1e9) : "-";
  return fmt::format("{:7.2f} GB/s {:>15}", rate.median / 1e9, spread);
}

void print_result(const std::string& name, const Interval& rate, const std::string& durable, const std::string& bound) {
  say("{:76} {} {:>8}  {}\n", name, rate_text(rate), durable, bound);
}

}  // namespace

void print_results(const std::vector<Measured>& measured) {
  say("{:76} {:>12} {:>15} {:>8}  {}\n", "what", "rate", "95 %", "to disk", "bound by");
  for (const Measured& m : measured) {
    if (m.description().subject == "ceiling") continue;
    const std::vector<std::string> notes = notes_of(m);
    if (m.samples.empty()) {
      say("{:76} {}\n", m.description().id(), notes.back());
      continue;
    }
    const auto bound = bound_by(m, measured);
    const bool synced = m.samples.front().sync_ns.has_value();
    print_result(m.description().id(), median_interval(m.rates()),
                 synced ? fmt::format("{:.2f}", median_interval(m.durable_rates()).median / 1e9) : "",
                 bound ? fmt::format("{} ({:.0f} %)", bound->rung, 100 * bound->share) : "");
    for (const std::string& note : notes) {
      const bool is_told = note.find("made in place") != std::string::npos || note.ends_with("were repeated");
      if (is_told) say("  {}\n", note);
    }
  }
  for (const CeilingRate& ceiling : ceilings_of(measured)) {
    if (ceiling.rung.starts_with("path-") || ceiling.rung.starts_with("device-")) continue;
    print_result(fmt::format("ceiling {} t{}", ceiling.rung, ceiling.threads), ceiling.rate, "", "");
  }
}

}  // namespace tzmark::bench
