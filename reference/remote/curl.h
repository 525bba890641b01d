// libcurl, which is loaded by the first use, so that programs run without it.
//
// Environment variable, for tests: TZMARK_CURL_LIBRARY replaces libcurl.so.4. Thread-safe. The library stays loaded.
#pragma once

#include <curl/curl.h>

#include <string>

namespace tzmark {

struct CurlCalls {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_version_info) version_info = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_reset) easy_reset = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_perform) easy_perform = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&::curl_multi_setopt) multi_setopt = nullptr;
  decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&::curl_multi_perform) multi_perform = nullptr;
  decltype(&::curl_multi_poll) multi_poll = nullptr;
  decltype(&::curl_multi_info_read) multi_info_read = nullptr;
  decltype(&::curl_multi_strerror) multi_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
};

class Curl {
 public:
  static Curl& instance();

  // The reason why no URL can be read; empty if the library works.
  const std::string& why_unavailable() const { return why_unavailable_; }
  // The same for requests with AWS signatures.
  const std::string& why_no_signatures() const { return why_no_signatures_; }

  // REQUIRES: why_unavailable() is empty.
  const CurlCalls& calls() const { return calls_; }

 private:
  Curl();
  std::string start();

  CurlCalls calls_;
  std::string why_unavailable_, why_no_signatures_;
};

}  // namespace tzmark
