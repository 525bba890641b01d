// See remote/settings.h.
#include "remote/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

#include "tzmark/error.h"

namespace tzmark {
namespace {

struct NumberRange {
  std::uint64_t least, most;
};

std::uint64_t number_from(const Environment& environment, const char* name, std::uint64_t usual, NumberRange range) {
  const auto text = environment(name);
  if (!text) return usual;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  const bool is_number = error == std::errc() && end == text->data() + text->size();
  if (is_number && value >= range.least && value <= range.most) return value;
  throw Error(ErrorCode::kUsage,
              fmt::format("{} is '{}', but a number from {} to {} is expected", name, *text, range.least, range.most));
}

}  // namespace

std::optional<std::string> process_environment(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || (*value == '\0' && std::strcmp(name, kCredentialsVariable) != 0)) return std::nullopt;
  return value;
}

RemoteSettings remote_settings(const Environment& environment) {
  using std::chrono::milliseconds;
  constexpr std::uint64_t kSecondsMax = 86400;
  RemoteSettings settings;
  const auto seconds_from = [&](const char* name, milliseconds usual) {
    return milliseconds(1000 * number_from(environment, name, usual.count() / 1000, {1, kSecondsMax}));
  };
  settings.attempts_max =
      static_cast<unsigned>(number_from(environment, "TZMARK_HTTP_ATTEMPTS", settings.attempts_max, {1, 100}));
  settings.first_pause =
      milliseconds(number_from(environment, "TZMARK_HTTP_PAUSE_MS", settings.first_pause.count(), {1, 60'000}));
  settings.pause_max = std::max(settings.pause_max, settings.first_pause);
  settings.stall_max = seconds_from("TZMARK_HTTP_STALL_S", settings.stall_max);
  settings.connect_max = std::min(settings.connect_max, settings.stall_max);
  settings.deadline = seconds_from("TZMARK_HTTP_DEADLINE_S", settings.deadline);
  settings.copy_bytes_max =
      number_from(environment, "TZMARK_HTTP_COPY_MIB", settings.copy_bytes_max >> 20, {1, std::uint64_t{1} << 30})
      << 20;
  settings.ca_file = environment("SSL_CERT_FILE").value_or("");
  settings.ca_directory = environment("SSL_CERT_DIR").value_or("");
  return settings;
}

std::chrono::milliseconds pause_before_retry(const RemoteSettings& settings, unsigned failures,
                                             std::optional<std::chrono::seconds> retry_after,
                                             std::minstd_rand& random) {
  constexpr unsigned kDoublingsMax = 16;
  const auto doubled = settings.first_pause * (std::int64_t{1} << std::min(failures - 1, kDoublingsMax));
  const auto usual = std::min<std::chrono::milliseconds>(doubled, settings.pause_max);
  // Threads that failed together must not return together.
  std::uniform_real_distribution<double> jitter(0.5, 1.0);
  const std::chrono::milliseconds pause(static_cast<std::int64_t>(jitter(random) * static_cast<double>(usual.count())));
  return retry_after ? std::max<std::chrono::milliseconds>(pause, *retry_after) : pause;
}

}  // namespace tzmark
