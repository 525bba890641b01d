// Temporary credentials that AWS hands out to containers and instances: where they are asked for, and what is answered.
//
// Only TZMARK_S3_CREDENTIALS, "container" or "instance", makes tzmark ask. The texts of errors contain no secret.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "remote/settings.h"

namespace tzmark {

struct CredentialsEndpoint {
  enum class Kind : std::uint8_t { kContainer, kInstance };
  Kind kind = Kind::kContainer;
  // Of a container, what is asked for; of an instance, where its metadata begin. No slash at the end.
  std::string address;
  // Of a container, the Authorization field: its value, or the file that has it.
  std::string token = {}, token_file = {};

  friend bool operator==(const CredentialsEndpoint&, const CredentialsEndpoint&) = default;
};

// Returns nothing if the environment does not ask for one. Throws TZE-USE-001.
std::optional<CredentialsEndpoint> credentials_endpoint(const Environment& environment);

// Returns the field that a request to the endpoint of a container has; empty if there is none. Reads the file each
// time, as its content is replaced before it expires. Throws TZE-USE-001.
std::string authorization_field(const CredentialsEndpoint& endpoint);

struct TemporaryCredentials {
  std::string key_id, secret_key, session_token;
  std::chrono::system_clock::time_point expires_at;
};

// Whether a text of an answer may be sent back in a field: it is printable, without blanks, and not too long.
bool is_sendable_token(std::string_view text);
// Whether a text names a role, so that it may be a part of a path.
bool is_role_name(std::string_view text);

// Parses the time of an answer: "2026-01-31T12:00:00Z". Returns nothing for any other text.
std::optional<std::chrono::system_clock::time_point> parse_expiration(std::string_view text);
// Parses the JSON of an answer. Throws TZE-ENV-001.
TemporaryCredentials parse_credentials(std::string_view json);

// Returns when to fetch credentials again: 5 minutes before they expire, or when half of the time until then has gone.
std::chrono::system_clock::time_point refresh_time(std::chrono::system_clock::time_point now,
                                                   std::chrono::system_clock::time_point expires_at);

}  // namespace tzmark
