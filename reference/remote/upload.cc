// Single requests and multipart uploads; see tzmark/upload.h. Documentation: "Uploading and copying objects using
// multipart upload" in the user guide of Amazon S3.
#include "tzmark/upload.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bytes/threads.h"
#include "bytes/utf8.h"
#include "io/sigpipe_block.h"
#include "io/url.h"
#include "io/wait_check.h"
#include "remote/answer.h"
#include "remote/easy.h"
#include "remote/s3.h"
#include "remote/upload_text.h"
#include "tzmark/digest.h"

namespace tzmark {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// The first version that signs the hash which the request states.
constexpr unsigned kLeastVersion = 0x075700;
constexpr std::uint64_t kPartBytesMin = 5 << 20;
constexpr std::uint64_t kPartsMax = 10'000;
constexpr std::size_t kReplyBytesMax = 64 << 10;
// Less than this per second within the time for a stall is a stall.
constexpr long kStallBytesPerS = 64;
constexpr milliseconds kCheckMax{250};
constexpr long kExpectMs = 200;
// For the removal of parts, which an interrupted program waits for.
constexpr milliseconds kAbortMax{20'000};

enum class Method : std::uint8_t { kPut, kPost, kDelete, kHead };

struct Request {
  Method method = Method::kPut;
  std::string query = {};  // in the order of its names, and encoded, as it is signed
  std::span<const std::byte> body = {};
  std::vector<std::string> fields = {};
  bool may_take_long = false;                 // no stall before the deadline: S3 joins the parts before it answers
  std::optional<milliseconds> deadline = {};  // instead of that of the settings
};

struct Reply {
  Answer answer;
  std::string body;
};

struct Counts {
  std::atomic<std::uint64_t> requests = 0, retries = 0;
};

struct Destination {
  Target target;  // of the object
  Access access;
  RemoteSettings settings;
};

// Sends one request at a time over its own connection.
class Sender {
 public:
  Sender(const Destination& to, Counts& counts)
      : to_(to), counts_(counts), easy_(curl().easy_init()), random_(std::random_device()()) {
    if (easy_ == nullptr) throw std::bad_alloc();
  }
  ~Sender() {
    const SigpipeBlock block;
    curl().easy_cleanup(easy_);
    curl().slist_free_all(fields_);
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // Repeats it while that may help. Returns the reply, whatever its status, if a repetition would not change it.
  Reply send(const Request& request);
  // How often the last request was sent, as far as libcurl tells.
  unsigned sent_times() const { return sent_times_; }
  // From now on, no wait check ends a request.
  void ignore_wait_check() { is_interruptible_ = false; }

 private:
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* sender);
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* sender);
  static std::size_t on_read(char* out, std::size_t size, std::size_t count, void* sender);
  static int on_seek(void* sender, curl_off_t offset, int origin);
  static int on_progress(void* sender, curl_off_t, curl_off_t, curl_off_t, curl_off_t);

  CURLcode perform(const Request& request, const Target& target, milliseconds left);
  void set_method(const Request& request);
  void add_field(const std::string& field);
  void pause(milliseconds time) const;

  const Destination& to_;
  Counts& counts_;
  CURL* const easy_;
  curl_slist* fields_ = nullptr;
  std::minstd_rand random_;
  bool is_interruptible_ = true;
  unsigned sent_times_ = 0;
  // Of the request.
  std::span<const std::byte> body_;
  std::size_t sent_ = 0;
  Reply reply_;
  std::exception_ptr error_;  // thrown while libcurl was calling
  std::array<char, CURL_ERROR_SIZE> text_{};
};

std::size_t Sender::on_header(char* data, std::size_t size, std::size_t count, void* pointer) {
  Sender& sender = *static_cast<Sender*>(pointer);
  try {
    return sender.reply_.answer.add_line({data, size * count}) ? size * count : 0;
  } catch (...) {
    sender.error_ = std::current_exception();
    return 0;
  }
}

std::size_t Sender::on_body(char* data, std::size_t size, std::size_t count, void* pointer) {
  Sender& sender = *static_cast<Sender*>(pointer);
  try {
    if (sender.reply_.body.size() + size * count > kReplyBytesMax) return 0;
    sender.reply_.body.append(data, size * count);
  } catch (...) {
    sender.error_ = std::current_exception();
    return 0;
  }
  return size * count;
}

std::size_t Sender::on_read(char* out, std::size_t size, std::size_t count, void* pointer) {
  Sender& sender = *static_cast<Sender*>(pointer);
  const std::size_t moved = std::min(size * count, sender.body_.size() - sender.sent_);
  std::memcpy(out, sender.body_.data() + sender.sent_, moved);
  sender.sent_ += moved;
  return moved;
}

// libcurl sends a body again, on a new connection, if the server has closed the old one before it.
int Sender::on_seek(void* pointer, curl_off_t offset, int origin) {
  Sender& sender = *static_cast<Sender*>(pointer);
  if (origin != SEEK_SET || offset < 0 || static_cast<std::size_t>(offset) > sender.body_.size()) {
    return CURL_SEEKFUNC_FAIL;
  }
  sender.sent_ = static_cast<std::size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int Sender::on_progress(void* pointer, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  Sender& sender = *static_cast<Sender*>(pointer);
  try {
    if (sender.is_interruptible_) check_wait();
    return 0;
  } catch (...) {
    sender.error_ = std::current_exception();
    return 1;
  }
}

void Sender::add_field(const std::string& field) {
  curl_slist* const longer = curl().slist_append(fields_, field.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  fields_ = longer;
}

void Sender::set_method(const Request& request) {
  const auto bytes = static_cast<curl_off_t>(request.body.size());
  switch (request.method) {
    case Method::kPut:
      set_option(easy_, CURLOPT_UPLOAD, 1L);
      set_option(easy_, CURLOPT_INFILESIZE_LARGE, bytes);
      set_option(easy_, CURLOPT_READFUNCTION, &Sender::on_read);
      set_option(easy_, CURLOPT_READDATA, this);
      set_option(easy_, CURLOPT_SEEKFUNCTION, &Sender::on_seek);
      set_option(easy_, CURLOPT_SEEKDATA, this);
      break;
    case Method::kPost:
      set_option(easy_, CURLOPT_POST, 1L);
      set_option(easy_, CURLOPT_POSTFIELDSIZE_LARGE, bytes);
      set_option(easy_, CURLOPT_POSTFIELDS, bytes == 0 ? "" : reinterpret_cast<const char*>(request.body.data()));
      add_field("Content-Type: application/xml");
      break;
    case Method::kDelete:
      set_option(easy_, CURLOPT_CUSTOMREQUEST, "DELETE");
      break;
    case Method::kHead:
      set_option(easy_, CURLOPT_NOBODY, 1L);
      break;
  }
}

CURLcode Sender::perform(const Request& request, const Target& target, milliseconds left) {
  const SigpipeBlock block;
  curl().easy_reset(easy_);
  curl().slist_free_all(std::exchange(fields_, nullptr));
  body_ = request.body;
  sent_ = 0;
  reply_ = {};
  error_ = nullptr;
  text_.front() = '\0';
  set_common_options(easy_, to_.settings, target, text_.data());
  set_option(easy_, CURLOPT_HEADERFUNCTION, &Sender::on_header);
  set_option(easy_, CURLOPT_HEADERDATA, this);
  set_option(easy_, CURLOPT_WRITEFUNCTION, &Sender::on_body);
  set_option(easy_, CURLOPT_WRITEDATA, this);
  set_option(easy_, CURLOPT_NOPROGRESS, 0L);
  set_option(easy_, CURLOPT_XFERINFOFUNCTION, &Sender::on_progress);
  set_option(easy_, CURLOPT_XFERINFODATA, this);
  if (!request.may_take_long) {
    set_option(easy_, CURLOPT_LOW_SPEED_LIMIT, kStallBytesPerS);
    set_option(easy_, CURLOPT_LOW_SPEED_TIME, static_cast<long>(to_.settings.stall_max.count() / 1000));
  }
  // Of a server that does not answer "Expect: 100-continue", which libcurl would sign if a field left it out.
  set_option(easy_, CURLOPT_EXPECT_100_TIMEOUT_MS, kExpectMs);
  set_option(easy_, CURLOPT_TIMEOUT_MS, static_cast<long>(left.count()));
  set_method(request);
  for (const std::string& field : request.fields) add_field(field);
  for (const std::string& field : set_access_options(easy_, to_.access)) add_field(field);
  add_field("x-amz-content-sha256: " + hex_text(sha256(request.body)));
  set_option(easy_, CURLOPT_HTTPHEADER, fields_);
  ++counts_.requests;
  return curl().easy_perform(easy_);
}

void Sender::pause(milliseconds time) const {
  const auto end = Clock::now() + time;
  for (auto now = Clock::now(); now < end; now = Clock::now()) {
    if (is_interruptible_) check_wait();
    std::this_thread::sleep_for(std::min<Clock::duration>(end - now, kCheckMax));
  }
}

Reply Sender::send(const Request& request) {
  Target target = to_.target;
  if (!request.query.empty()) target.address += "?" + request.query;
  const RemoteSettings& settings = to_.settings;
  const auto begin = Clock::now();
  const auto end = begin + request.deadline.value_or(settings.deadline);
  for (unsigned failures = 1;; ++failures) {
    sent_times_ = failures;
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    const CURLcode code = perform(request, target, std::max(left, milliseconds(1)));
    if (error_) std::rethrow_exception(error_);
    const int status = reply_.answer.status();
    const bool is_refused = status >= 300;
    // A success before all was sent is none.
    const bool is_early = request.method == Method::kPut && sent_ < body_.size() && !is_refused;
    const bool has_reply = code == CURLE_OK && reply_.answer.is_complete() && !is_early;
    if (has_reply && !is_temporary_status(status)) return std::move(reply_);
    const std::string s3 = s3_code(reply_.body);
    const std::string problem = !has_reply   ? curl_problem(code, text_.data())
                                : s3.empty() ? status_text(status)
                                             : status_text(status) + ", " + s3;
    std::optional<std::chrono::seconds> retry_after;
    if (reply_.answer.retry_after()) retry_after = parse_retry_after(*reply_.answer.retry_after(), std::time(nullptr));
    const milliseconds wait = pause_before_retry(settings, failures, retry_after, random_);
    const bool may_help = has_reply || code == CURLE_OK || is_repeatable(code);
    if (!may_help || failures >= settings.attempts_max || Clock::now() + wait >= end) {
      const std::chrono::duration<double> elapsed = Clock::now() - begin;
      throw Error(
          ErrorCode::kWriteFailed,
          failures == 1 ? problem : fmt::format("{}; {} requests in {:.1f} s", problem, failures, elapsed.count()));
    }
    ++counts_.retries;
    pause(wait);
  }
}

bool is_success(int status) { return status >= 200 && status < 300; }

[[noreturn]] void refuse(const Reply& reply, const char* what) {
  const int status = reply.answer.status();
  const std::string code = s3_code(reply.body);
  std::string problem = fmt::format("{}: {}{}{}", what, status_text(status), code.empty() ? "" : ", ", code);
  if (is_redirect(status) && !reply.answer.bucket_region().empty()) {
    problem += fmt::format(": the bucket is in region {}: set AWS_REGION", printable(reply.answer.bucket_region()));
  }
  throw Error(ErrorCode::kWriteFailed, problem);
}

// Throws for a reply that is no success.
void require_success(const Reply& reply, const char* what) {
  if (!is_success(reply.answer.status())) refuse(reply, what);
}

// One file on its way.
class Upload {
 public:
  Upload(File& file, const Destination& to, const UploadOptions& options)
      : file_(file), to_(to), options_(options), bytes_(file.size()), sender_(to, counts_) {
    constexpr std::uint64_t kMiB = 1 << 20;
    part_bytes_ = std::max({options.part_bytes, kPartBytesMin, (bytes_ / kPartsMax / kMiB + 1) * kMiB});
    if (!options.may_replace) conditions_ = {"If-None-Match: *"};
  }

  UploadReport run() {
    before_ = head();
    if (!options_.may_replace && is_success(before_.status())) throw_exists();
    // What cannot be seen may exist.
    if (!options_.may_replace && before_.status() != 404) {
      throw Error(ErrorCode::kWriteFailed,
                  fmt::format("it cannot be told whether the object exists: {}", status_text(before_.status())));
    }
    bytes_ <= part_bytes_ ? put_whole() : put_parts();
    return {.parts = static_cast<unsigned>(etags_.size()),
            .requests = counts_.requests,
            .retries = counts_.retries,
            .why_not_checked = why_not_checked()};
  }

 private:
  Answer head() { return sender_.send({.method = Method::kHead}).answer; }

  [[noreturn]] void throw_exists() const {
    const bool may_be_ours = sender_.sent_times() > 1;
    throw Error(ErrorCode::kOpenFailed,
                may_be_ours ? "the object exists; it may be that of this command, as an answer to it was lost"
                            : "the object exists already");
  }

  // Compares the size of what is there now. Who may write need not be allowed to read.
  std::string why_not_checked() {
    Answer there;
    try {
      there = head();
    } catch (const Error& error) {
      return error.message();
    }
    if (there.status() == 404) throw Error(ErrorCode::kWriteFailed, "the object that was written is not there");
    if (there.status() != 200) return status_text(there.status());
    if (there.content_length() && *there.content_length() != bytes_) {
      throw Error(ErrorCode::kWriteFailed,
                  fmt::format("the server has {} bytes of {}", *there.content_length(), bytes_));
    }
    return {};
  }

  void put_whole() {
    std::vector<std::byte> body(bytes_);
    file_.read_at(0, std::span(body));
    const Reply reply = sender_.send({.body = body, .fields = conditions_});
    if (reply.answer.status() == 412) throw_exists();
    require_success(reply, "the object was not written");
    if (options_.progress) options_.progress(bytes_);
  }

  void put_parts() {
    const Reply begun = sender_.send({.method = Method::kPost, .query = "uploads="});
    require_success(begun, "no upload was begun");
    id_ = xml_text(begun.body, "UploadId");
    if (id_.empty()) throw Error(ErrorCode::kWriteFailed, "the server gave an upload no id");
    try {
      etags_.resize((bytes_ + part_bytes_ - 1) / part_bytes_);
      send_parts();
      complete();
    } catch (...) {
      abort();
      throw;
    }
  }

  std::string query_of_part(std::size_t part) const {
    return fmt::format("partNumber={}&uploadId={}", part + 1, percent_encoded(id_, "-._~"));
  }

  void send_parts() {
    const std::size_t helpers = std::min<std::size_t>(std::max(1U, options_.threads), etags_.size()) - 1;
    {
      const auto threads = start_threads(helpers, [this](std::size_t) { send_some(); });
      send_some();
    }
    if (error_) std::rethrow_exception(error_);
  }

  // Sends parts in turn with other threads, until there are no more or one has failed.
  void send_some() noexcept {
    try {
      Sender sender(to_, counts_);
      std::vector<std::byte> memory(part_bytes_);
      for (std::size_t part = next_part_++; part < etags_.size() && !has_failed_; part = next_part_++) {
        const std::uint64_t offset = part * part_bytes_;
        const auto body = std::span(memory).first(std::min<std::uint64_t>(part_bytes_, bytes_ - offset));
        file_.read_at(offset, body);
        const Reply reply = sender.send({.query = query_of_part(part), .body = body});
        require_success(reply, "a part was not written");
        etags_[part] = reply.answer.etag();
        // It is sent back, with those of all other parts.
        if (!can_be_sent(etags_[part])) throw Error(ErrorCode::kWriteFailed, "the server gave a part no valid ETag");
        if (options_.progress) options_.progress(body.size());
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      has_failed_ = true;
    }
  }

  // An answer is a success only if it says so: a server sends status 200 before it knows. Any other one may hide one.
  void complete() {
    const std::string text = completion_text(etags_);
    const Request request = {.method = Method::kPost,
                             .query = "uploadId=" + percent_encoded(id_, "-._~"),
                             .body = std::as_bytes(std::span(text)),
                             .fields = conditions_,
                             .may_take_long = true};
    for (unsigned attempt = 1;; ++attempt) {
      Reply reply;
      try {
        reply = sender_.send(request);
      } catch (const Error&) {
        if (is_new()) return;
        throw;
      }
      const bool is_started = is_success(reply.answer.status());
      if (is_started && tells_completion(reply.body)) return;
      if (reply.answer.status() == 412) throw_exists();
      if (is_new()) return;
      if (!is_started || attempt >= to_.settings.attempts_max) refuse(reply, "the upload was not completed");
    }
  }

  // Whether the object is that of this upload, as far as the server tells: another one than before, of so many parts
  // and bytes.
  bool is_new() {
    Answer there;
    try {
      there = head();
    } catch (const Error&) {
      return false;
    }
    const bool is_other = before_.status() == 404 ||
                          (before_.status() == 200 &&
                           (before_.etag() != there.etag() || before_.last_modified() != there.last_modified()));
    return there.status() == 200 && is_other && there.content_length() == bytes_ &&
           there.etag().ends_with(fmt::format("-{}\"", etags_.size()));
  }

  // Called with an exception, which says what matters unless parts stay on the server.
  void abort() {
    std::string why;
    sender_.ignore_wait_check();
    try {
      const Reply reply = sender_.send({.method = Method::kDelete,
                                        .query = "uploadId=" + percent_encoded(id_, "-._~"),
                                        .deadline = std::min(kAbortMax, to_.settings.deadline)});
      const int status = reply.answer.status();
      if (is_success(status) || status == 404) return;
      why = status_text(status);
    } catch (const Error& error) {
      why = error.message();
    } catch (...) {
      why = "interrupted";
    }
    try {
      throw;
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}; the parts that were sent stay on the server as upload '{}' ({})",
                                            error.message(), printable(id_), why));
    }
  }

  File& file_;
  const Destination& to_;
  const UploadOptions& options_;
  const std::uint64_t bytes_;
  std::uint64_t part_bytes_ = 0;
  std::vector<std::string> conditions_;
  Counts counts_;
  Sender sender_;
  Answer before_;  // of the object
  std::string id_;
  std::vector<std::string> etags_;
  std::atomic<std::size_t> next_part_ = 0;
  std::atomic<bool> has_failed_ = false;
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

UploadReport upload(File& file, const std::string& s3_url, const UploadOptions& options) {
  if (url_scheme(s3_url) != "s3") throw Error(ErrorCode::kUsage, "only s3 URLs can be written");
  const Curl& library = Curl::instance();
  if (!library.why_no_signatures().empty()) throw Error(ErrorCode::kUnavailable, library.why_no_signatures());
  const curl_version_info_data& version = *curl().version_info(CURLVERSION_NOW);
  if (version.version_num < kLeastVersion) {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("libcurl is version {}, but 7.87 or later is needed to write", version.version));
  }
  const S3Location location = s3_location(s3_url, aws_settings(process_environment));
  const Destination to = {Target(parse_url(location.url)), location.access, remote_settings(process_environment)};
  return Upload(file, to, options).run();
}

}  // namespace tzmark
