// Requests that write to S3, or ask about what is to be written: signed, repeated while that may help, one at a time.
//
// A sender is for one thread at a time, and has a connection of its own. Errors: TZE-ENV-003, with the last fault and
// the number of requests; what the wait check of tzmark/io.h throws.
#pragma once

#include <curl/curl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "remote/answer.h"
#include "remote/object.h"

namespace tzmark {

enum class S3Method : std::uint8_t { kPut, kPost, kDelete, kHead, kGet };

struct S3Request {
  S3Method method = S3Method::kPut;
  std::string query = {};  // in the order of its names, and encoded, as it is signed
  std::span<const std::byte> body = {};
  std::vector<std::string> fields = {};
  bool may_take_long = false;  // no stall before the deadline: S3 joins the parts before it answers
  std::optional<std::chrono::milliseconds> deadline = {};  // instead of that of the settings
};

struct S3Reply {
  Answer answer;
  std::string body;
};

struct S3Counts {
  std::atomic<std::uint64_t> requests = 0, retries = 0;
};

struct S3Destination {
  Target target;
  Access access;
  RemoteSettings settings;
};

// Sends one request at a time over its own connection.
class S3Sender {
 public:
  // Keeps references to both.
  S3Sender(const S3Destination& to, S3Counts& counts);
  ~S3Sender();
  S3Sender(const S3Sender&) = delete;
  S3Sender& operator=(const S3Sender&) = delete;

  // Repeats it while that may help. Returns the reply, whatever its status, if a repetition would not change it.
  S3Reply send(const S3Request& request);
  // How often the last request was sent, as far as libcurl tells.
  unsigned sent_times() const { return sent_times_; }
  // Whether a wait check ends requests from now on. It does at first.
  void set_interruptible(bool is) { is_interruptible_ = is; }

 private:
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* sender);
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* sender);
  static std::size_t on_read(char* out, std::size_t size, std::size_t count, void* sender);
  static int on_seek(void* sender, curl_off_t offset, int origin);
  static int on_progress(void* sender, curl_off_t, curl_off_t, curl_off_t, curl_off_t);

  CURLcode perform(const S3Request& request, const Target& target, std::chrono::milliseconds left);
  void set_method(const S3Request& request);
  void add_field(const std::string& field);
  void pause(std::chrono::milliseconds time) const;

  const S3Destination& to_;
  S3Counts& counts_;
  CURL* const easy_;
  curl_slist* fields_ = nullptr;
  std::minstd_rand random_;
  bool is_interruptible_ = true;
  unsigned sent_times_ = 0;
  // Of the request.
  std::span<const std::byte> body_;
  std::size_t sent_ = 0;
  S3Reply reply_;
  std::exception_ptr error_;  // thrown while libcurl was calling
  std::array<char, CURL_ERROR_SIZE> text_{};
};

bool is_success(int status);
// Throws TZE-ENV-003 with the server's answer.
[[noreturn]] void refuse_reply(const S3Reply& reply, const char* what);
// Throws for a reply that is no success.
void require_success(const S3Reply& reply, const char* what);

// Throws TZE-USE-001 for what is no s3 URL, and TZE-AVL-001 without libcurl 7.87, the first version that signs the hash
// which a request states.
S3Destination destination_of(const std::string& s3_url);
// The same for the bucket of that URL, as requests about all of its objects name it.
S3Destination bucket_of(const std::string& s3_url);

}  // namespace tzmark
