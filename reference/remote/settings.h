// How remote files are read: retries, their pauses, and time limits. docs/remote.md describes the environment
// variables.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>

namespace tzmark {

// Asks for the credentials of a container or an instance.
inline constexpr const char* kCredentialsVariable = "TZMARK_S3_CREDENTIALS";

// Returns the value of an environment variable; nothing if it is unset or empty. Only of kCredentialsVariable, an empty
// value is returned, as it is an error.
using Environment = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_environment(const char* name);

struct RemoteSettings {
  // Requests in a row that bring no byte of a transfer; more of them end it.
  unsigned attempts_max = 5;
  // Of a file whose server cannot send parts of it.
  std::uint64_t copy_bytes_max = std::uint64_t{16} << 30;
  std::chrono::milliseconds first_pause{200};  // before the second request; doubles each time
  std::chrono::milliseconds pause_max{10'000};
  std::chrono::milliseconds stall_max{30'000};  // a request is repeated if less than 1 KiB comes in that time
  std::chrono::milliseconds connect_max{15'000};
  std::chrono::milliseconds deadline{600'000};  // of one transfer with all of its requests
  unsigned redirects_max = 5;
  bool may_use_proxy = true;          // that of the environment
  std::string ca_file, ca_directory;  // empty: those of libcurl
};

// Throws TZE-USE-001 for a value that is not a number in its range.
RemoteSettings remote_settings(const Environment& environment);

// Returns how long to wait before the next request: an exponential pause with jitter, or longer if the server says so.
// failures: requests in a row that have failed, at least 1.
std::chrono::milliseconds pause_before_retry(const RemoteSettings& settings, unsigned failures,
                                             std::optional<std::chrono::seconds> retry_after, std::minstd_rand& random);

}  // namespace tzmark
