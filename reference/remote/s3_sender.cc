// See remote/s3_sender.h.
#include "remote/s3_sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <new>
#include <thread>
#include <utility>

#include "bytes/utf8.h"
#include "io/sigpipe_block.h"
#include "io/url.h"
#include "io/wait_check.h"
#include "remote/curl.h"
#include "remote/easy.h"
#include "remote/s3.h"
#include "remote/upload_text.h"
#include "tzmark/digest.h"
#include "tzmark/error.h"
#include "tzmark/upload.h"

namespace tzmark {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr unsigned kLeastWritingVersion = 0x075700;
constexpr std::size_t kReplyBytesMax = 64 << 10;
// Less than this per second within the time for a stall is a stall.
constexpr long kStallBytesPerS = 64;
constexpr milliseconds kCheckMax{250};
constexpr long kExpectMs = 200;

S3Location location_of(const std::string& s3_url) {
  if (!is_s3_url(s3_url)) throw Error(ErrorCode::kUsage, "only s3 URLs can be written");
  const Curl& library = Curl::instance();
  if (!library.why_no_signatures().empty()) throw Error(ErrorCode::kUnavailable, library.why_no_signatures());
  const curl_version_info_data& version = *curl().version_info(CURLVERSION_NOW);
  if (version.version_num < kLeastWritingVersion) {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("libcurl is version {}, but 7.87 or later is needed to write", version.version));
  }
  return s3_location(s3_url, aws_settings(process_environment));
}

}  // namespace

S3Sender::S3Sender(const S3Destination& to, S3Counts& counts)
    : to_(to), counts_(counts), easy_(curl().easy_init()), random_(std::random_device()()) {
  if (easy_ == nullptr) throw std::bad_alloc();
}

S3Sender::~S3Sender() {
  const SigpipeBlock block;
  curl().easy_cleanup(easy_);
  curl().slist_free_all(fields_);
}

std::size_t S3Sender::on_header(char* data, std::size_t size, std::size_t count, void* pointer) {
  S3Sender& sender = *static_cast<S3Sender*>(pointer);
  try {
    return sender.reply_.answer.add_line({data, size * count}) ? size * count : 0;
  } catch (...) {
    sender.error_ = std::current_exception();
    return 0;
  }
}

std::size_t S3Sender::on_body(char* data, std::size_t size, std::size_t count, void* pointer) {
  S3Sender& sender = *static_cast<S3Sender*>(pointer);
  try {
    if (sender.reply_.body.size() + size * count > kReplyBytesMax) {
      throw Error(ErrorCode::kWriteFailed, fmt::format("an answer of more than {} bytes", kReplyBytesMax));
    }
    sender.reply_.body.append(data, size * count);
  } catch (...) {
    sender.error_ = std::current_exception();
    return 0;
  }
  return size * count;
}

std::size_t S3Sender::on_read(char* out, std::size_t size, std::size_t count, void* pointer) {
  S3Sender& sender = *static_cast<S3Sender*>(pointer);
  const std::size_t moved = std::min(size * count, sender.body_.size() - sender.sent_);
  std::memcpy(out, sender.body_.data() + sender.sent_, moved);
  sender.sent_ += moved;
  return moved;
}

// libcurl sends a body again, on a new connection, if the server has closed the old one before it.
int S3Sender::on_seek(void* pointer, curl_off_t offset, int origin) {
  S3Sender& sender = *static_cast<S3Sender*>(pointer);
  if (origin != SEEK_SET || offset < 0 || static_cast<std::size_t>(offset) > sender.body_.size()) {
    return CURL_SEEKFUNC_FAIL;
  }
  sender.sent_ = static_cast<std::size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int S3Sender::on_progress(void* pointer, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  S3Sender& sender = *static_cast<S3Sender*>(pointer);
  try {
    if (sender.is_interruptible_) check_wait();
    return 0;
  } catch (...) {
    sender.error_ = std::current_exception();
    return 1;
  }
}

void S3Sender::add_field(const std::string& field) {
  curl_slist* const longer = curl().slist_append(fields_, field.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  fields_ = longer;
}

void S3Sender::set_method(const S3Request& request) {
  const auto bytes = static_cast<curl_off_t>(request.body.size());
  switch (request.method) {
    case S3Method::kPut:
      set_option(easy_, CURLOPT_UPLOAD, 1L);
      set_option(easy_, CURLOPT_INFILESIZE_LARGE, bytes);
      set_option(easy_, CURLOPT_READFUNCTION, &S3Sender::on_read);
      set_option(easy_, CURLOPT_READDATA, this);
      set_option(easy_, CURLOPT_SEEKFUNCTION, &S3Sender::on_seek);
      set_option(easy_, CURLOPT_SEEKDATA, this);
      break;
    case S3Method::kPost:
      set_option(easy_, CURLOPT_POST, 1L);
      set_option(easy_, CURLOPT_POSTFIELDSIZE_LARGE, bytes);
      set_option(easy_, CURLOPT_POSTFIELDS, bytes == 0 ? "" : reinterpret_cast<const char*>(request.body.data()));
      add_field("Content-Type: application/xml");
      break;
    case S3Method::kDelete:
      set_option(easy_, CURLOPT_CUSTOMREQUEST, "DELETE");
      break;
    case S3Method::kHead:
      set_option(easy_, CURLOPT_NOBODY, 1L);
      break;
    case S3Method::kGet:
      break;
  }
}

CURLcode S3Sender::perform(const S3Request& request, const Target& target, milliseconds left) {
  const SigpipeBlock block;
  curl().easy_reset(easy_);
  curl().slist_free_all(std::exchange(fields_, nullptr));
  body_ = request.body;
  sent_ = 0;
  reply_ = {};
  error_ = nullptr;
  text_.front() = '\0';
  set_common_options(easy_, to_.settings, target, text_.data());
  set_option(easy_, CURLOPT_HEADERFUNCTION, &S3Sender::on_header);
  set_option(easy_, CURLOPT_HEADERDATA, this);
  set_option(easy_, CURLOPT_WRITEFUNCTION, &S3Sender::on_body);
  set_option(easy_, CURLOPT_WRITEDATA, this);
  set_option(easy_, CURLOPT_NOPROGRESS, 0L);
  set_option(easy_, CURLOPT_XFERINFOFUNCTION, &S3Sender::on_progress);
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
  for (const std::string& field : set_access_options(easy_, to_.access, is_interruptible_)) add_field(field);
  add_field("x-amz-content-sha256: " + hex_text(sha256(request.body)));
  set_option(easy_, CURLOPT_HTTPHEADER, fields_);
  ++counts_.requests;
  return curl().easy_perform(easy_);
}

void S3Sender::pause(milliseconds time) const {
  const auto end = Clock::now() + time;
  for (auto now = Clock::now(); now < end; now = Clock::now()) {
    if (is_interruptible_) check_wait();
    std::this_thread::sleep_for(std::min<Clock::duration>(end - now, kCheckMax));
  }
}

S3Reply S3Sender::send(const S3Request& request) {
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
    const bool is_early = request.method == S3Method::kPut && sent_ < body_.size() && !is_refused;
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

[[noreturn]] void refuse_reply(const S3Reply& reply, const char* what) {
  const int status = reply.answer.status();
  const std::string code = s3_code(reply.body);
  std::string problem = fmt::format("{}: {}{}{}", what, status_text(status), code.empty() ? "" : ", ", code);
  if (is_redirect(status) && !reply.answer.bucket_region().empty()) {
    problem += fmt::format(": the bucket is in region {}: set AWS_REGION", printable(reply.answer.bucket_region()));
  }
  throw Error(ErrorCode::kWriteFailed, problem);
}

void require_success(const S3Reply& reply, const char* what) {
  if (!is_success(reply.answer.status())) refuse_reply(reply, what);
}

S3Destination destination_of(const std::string& s3_url) {
  const S3Location location = location_of(s3_url);
  return {Target(parse_url(location.url)), location.access, remote_settings(process_environment)};
}

S3Destination bucket_of(const std::string& s3_url) {
  const S3Location location = location_of(s3_url);
  return {Target(parse_url(location.bucket_url)), location.access, remote_settings(process_environment)};
}

}  // namespace tzmark
