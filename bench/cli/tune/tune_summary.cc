// A few lines per task; see tune_summary.h.
#include "cli/tune/tune_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tzmark::bench {
namespace {

std::string gigabytes(double rate) { return fmt::format("{:.2f} GB/s", rate / 1e9); }

std::string bytes_text(std::uint64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  return bytes >= 1 << 20 ? fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20))
                          : fmt::format("{} KiB", bytes >> 10);
}

std::string rate_text(const TunedSetting& tuned) {
  const Interval rate = median_interval(rates_of(tuned.samples));
  if (!rate.low) return gigabytes(rate.median);
  return fmt::format("{} ({:.2f} - {:.2f})", gigabytes(rate.median), *rate.low / 1e9, *rate.high / 1e9);
}

std::string line(std::string_view label, const std::string& text) { return fmt::format("  {:12} {}\n", label, text); }

std::string default_line(const SearchResult& search) {
  const TunedSetting& standard = search.settings[search.standard];
  if (search.recommended == search.standard) return line("default", "is the recommended setting");
  const std::string rate = standard.samples.empty() ? "not measured" : rate_text(standard);
  std::string text = fmt::format("{}, {}", rate, label_of(standard.setting));
  if (search.standard_loses) {
    const LossInterval& loses = *search.standard_loses;
    text += fmt::format(": loses {:.0f} %", 100 * loses.estimate);
    if (std::isfinite(loses.low) && std::isfinite(loses.high)) {
      text += fmt::format(" ({:.0f} to {:.0f})", 100 * loses.low, 100 * loses.high);
    }
  }
  return line("default", text);
}

std::string task_text(const TaskOutcome& found) {
  const SearchResult& search = found.search;
  const TunedSetting* const recommended = found.recommended();
  if (recommended == nullptr) {
    const std::string why = search.settings.empty() || search.settings[search.standard].failed.empty()
                                ? "not enough was measured"
                                : search.settings[search.standard].failed;
    return fmt::format("{:11} no answer: {}\n", name_of(found.task), why);
  }
  std::string text =
      fmt::format("{:11} {}  {}\n", name_of(found.task), rate_text(*recommended), label_of(recommended->setting));
  const auto ties = std::ranges::count_if(search.settings, [](const TunedSetting& t) { return t.is_tie; });
  std::string verdict = fmt::format("{}; {} of {} settings measured", verdict_name(search.verdict),
                                    search.settings.size(), search.space_size);
  if (ties > 1) verdict += fmt::format(", {} tie with the best", ties);
  text += line("verdict", verdict);
  text += default_line(search);
  std::string memory = fmt::format("{} in flight", bytes_text(recommended->setting.bytes_in_flight()));
  if (search.least_in_flight && search.least_in_flight != search.recommended) {
    const TunedSetting& least = search.settings[*search.least_in_flight];
    memory += fmt::format("; 95 % of the best with {}: {}", bytes_text(least.setting.bytes_in_flight()),
                          label_of(least.setting));
  }
  text += line("memory", memory);
  if (found.ceiling.verdict) {
    const CeilingVerdict& ceiling = *found.ceiling.verdict;
    text += line("ceiling", fmt::format("{}, {}, reached to {:.0f} %: {}", ceiling.name, gigabytes(ceiling.rate),
                                        100 * ceiling.share, ceiling.text));
  }
  if (found.sustained) text += line("sustained", found.sustained->text);
  if (found.model) {
    text += line("model", fmt::format("{:.2f} ms + {:.2f} us per tensor + {:.0f} ms per GB (off by {:.1f} %)",
                                      found.model->open_s() * 1e3, found.model->per_tensor_s() * 1e6,
                                      found.model->per_byte_s() * 1e12, 100 * found.model->spread()));
  }
  return text;
}

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.0f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

}  // namespace

std::string effect_text(const RatioInterval& effect) {
  if (!std::isfinite(effect.high) || effect.low <= 0) return "tried too briefly to tell";
  const std::string interval = fmt::format("{:+.0f} % ({:+.0f} to {:+.0f})", 100 * (effect.estimate - 1),
                                           100 * (effect.low - 1), 100 * (effect.high - 1));
  if (effect.high < 1) return fmt::format("tried, and it is slower here: {}", interval);
  return fmt::format("{}: {}", effect.low > 1 ? "tried" : "tried, a tie", interval);
}

std::string tune_summary(const TuneOutcome& outcome) {
  std::string text;
  for (const TaskOutcome& found : outcome.tasks) text += task_text(found);
  for (const PredictionOutcome& one : outcome.predictions) {
    text += fmt::format("{:11} {}: {} ({} to {})\n", name_of(one.task), one.workload, seconds_text(one.time.seconds),
                        seconds_text(std::max(0.0, one.time.low)), seconds_text(one.time.high));
  }
  for (const AdviceOutcome& one : outcome.advice) {
    std::string effect;
    if (one.effect) effect = fmt::format(" ({})", effect_text(*one.effect));
    text += fmt::format("advice      {}: {}{}\n", one.advice.task, one.advice.what, effect);
    if (one.advice.command) text += fmt::format("            {}\n", *one.advice.command);
  }
  for (const std::string& warning : outcome.warnings) text += fmt::format("note: {}\n", warning);
  return text;
}

}  // namespace tzmark::bench
