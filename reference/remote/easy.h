// What all requests by libcurl have in common: their options, and what its errors mean.
//
// Thread-safe, each handle by one thread at a time. REQUIRES: Curl::instance() is available.
#pragma once

#include <curl/curl.h>

#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "remote/curl.h"
#include "remote/object.h"
#include "remote/settings.h"
#include "tzmark/error.h"

namespace tzmark {

inline const CurlCalls& curl() { return Curl::instance().calls(); }

std::string refused_option(CURLoption option, CURLcode code);

// Sets an option of a handle. Throws TZE-ENV-002.
template <typename Value>
void set_option(CURL* easy, CURLoption option, Value value) {
  const CURLcode code = curl().easy_setopt(easy, option, value);
  if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
  if (code != CURLE_OK) {
    throw Error(ErrorCode::kReadFailed, refused_option(option, code));
  }
}

template <typename Value>
Value information(CURL* easy, CURLINFO which) {
  Value value{};
  curl().easy_getinfo(easy, which, &value);
  return value;
}

// Whether a later request may succeed.
bool is_repeatable(CURLcode code);

// What curl says of an error; text: that of CURLOPT_ERRORBUFFER.
std::string curl_problem(CURLcode code, std::string_view text);

// The code in the XML of an error of S3: "NoSuchKey". Empty if there is none.
std::string s3_code(std::string_view body);

// Address, protocols, time limits and certificates. target and error_text must outlive the handle's requests.
void set_common_options(CURL* easy, const RemoteSettings& settings, const Target& target, char* error_text);

// Sets who asks, and returns the header fields that belong to it. Of AWS, x-amz-content-sha256 has to be added.
// Credentials of an endpoint are fetched where they are missing or expire soon: see remote/credential_source.h, also
// for errors and is_interruptible. From now on, core dumps have no memory.
std::vector<std::string> set_access_options(CURL* easy, const Access& access, bool is_interruptible = true);

}  // namespace tzmark
