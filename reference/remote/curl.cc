// See remote/curl.h.
#include "remote/curl.h"

#include <fmt/format.h>

#include "io/shared_library.h"

namespace tzmark {
namespace {

// The first version with curl_multi_poll, and the first with CURLOPT_AWS_SIGV4.
constexpr unsigned kLeastVersion = 0x074200;
constexpr unsigned kLeastSigningVersion = 0x074b00;

}  // namespace

Curl& Curl::instance() {
  static Curl curl;
  return curl;
}

Curl::Curl() {
  why_unavailable_ = start();
  if (!why_unavailable_.empty()) why_no_signatures_ = why_unavailable_;
}

std::string Curl::start() {
  SharedLibrary library("libcurl.so.4", "TZMARK_CURL_LIBRARY");
  if (!library.why_not_loaded().empty()) return library.why_not_loaded();
  library.require(calls_.global_init, "curl_global_init");
  library.require(calls_.version_info, "curl_version_info");
  library.require(calls_.easy_init, "curl_easy_init");
  library.require(calls_.easy_reset, "curl_easy_reset");
  library.require(calls_.easy_cleanup, "curl_easy_cleanup");
  library.require(calls_.easy_setopt, "curl_easy_setopt");
  library.require(calls_.easy_getinfo, "curl_easy_getinfo");
  library.require(calls_.easy_perform, "curl_easy_perform");
  library.require(calls_.easy_strerror, "curl_easy_strerror");
  library.require(calls_.multi_init, "curl_multi_init");
  library.require(calls_.multi_cleanup, "curl_multi_cleanup");
  library.require(calls_.multi_setopt, "curl_multi_setopt");
  library.require(calls_.multi_add_handle, "curl_multi_add_handle");
  library.require(calls_.multi_remove_handle, "curl_multi_remove_handle");
  library.require(calls_.multi_perform, "curl_multi_perform");
  library.require(calls_.multi_poll, "curl_multi_poll");
  library.require(calls_.multi_info_read, "curl_multi_info_read");
  library.require(calls_.multi_strerror, "curl_multi_strerror");
  library.require(calls_.slist_append, "curl_slist_append");
  library.require(calls_.slist_free_all, "curl_slist_free_all");
  if (!library.missing().empty()) {
    return fmt::format("{} lacks {}", library.name(), library.missing().front());
  }
  if (calls_.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return fmt::format("{} does not start", library.name());
  const curl_version_info_data& version = *calls_.version_info(CURLVERSION_NOW);
  if (version.version_num < kLeastVersion) {
    return fmt::format("{} is version {}, but 7.66 or later is needed", library.name(), version.version);
  }
  if (version.version_num < kLeastSigningVersion) {
    why_no_signatures_ = fmt::format("{} is version {}, but 7.75 or later is needed", library.name(), version.version);
  }
  return {};
}

}  // namespace tzmark
