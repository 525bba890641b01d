// Single requests and multipart uploads; see tzmark/upload.h. Documentation: "Uploading and copying objects using
// multipart upload" in the user guide of Amazon S3.
#include "tzmark/upload.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "bytes/threads.h"
#include "bytes/utf8.h"
#include "io/url.h"
#include "io/wait_check.h"
#include "remote/answer.h"
#include "remote/s3_sender.h"
#include "remote/upload_text.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kPartBytesMin = 5 << 20;
constexpr std::uint64_t kPartsMax = 10'000;
// For the requests which an interrupted program waits for: those that begin an upload and remove its parts.
constexpr milliseconds kNotInterruptedMax{20'000};

// One file on its way.
class Upload {
 public:
  Upload(File& file, const S3Destination& to, const UploadOptions& options)
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
  Answer head() { return sender_.send({.method = S3Method::kHead}).answer; }

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
    const S3Reply reply = sender_.send({.body = body, .fields = conditions_});
    if (reply.answer.status() == 412) throw_exists();
    require_success(reply, "the object was not written");
    if (options_.progress) options_.progress(bytes_);
  }

  void put_parts() {
    // An upload whose id never came could not be removed.
    sender_.set_interruptible(false);
    const S3Reply begun = sender_.send({.method = S3Method::kPost,
                                        .query = "uploads=",
                                        .deadline = std::min(kNotInterruptedMax, to_.settings.deadline)});
    sender_.set_interruptible(true);
    require_success(begun, "no upload was begun");
    id_ = xml_text(begun.body, "UploadId");
    if (id_.empty()) throw Error(ErrorCode::kWriteFailed, "the server gave an upload no id");
    try {
      check_wait();
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
      S3Sender sender(to_, counts_);
      std::vector<std::byte> memory(part_bytes_);
      for (std::size_t part = next_part_++; part < etags_.size() && !has_failed_; part = next_part_++) {
        const std::uint64_t offset = part * part_bytes_;
        const auto body = std::span(memory).first(std::min<std::uint64_t>(part_bytes_, bytes_ - offset));
        file_.read_at(offset, body);
        const S3Reply reply = sender.send({.query = query_of_part(part), .body = body});
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
    const S3Request request = {.method = S3Method::kPost,
                               .query = "uploadId=" + percent_encoded(id_, "-._~"),
                               .body = std::as_bytes(std::span(text)),
                               .fields = conditions_,
                               .may_take_long = true};
    for (unsigned attempt = 1;; ++attempt) {
      S3Reply reply;
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
      if (!is_started || attempt >= to_.settings.attempts_max) refuse_reply(reply, "the upload was not completed");
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
    sender_.set_interruptible(false);
    try {
      const S3Reply reply = sender_.send({.method = S3Method::kDelete,
                                          .query = "uploadId=" + percent_encoded(id_, "-._~"),
                                          .deadline = std::min(kNotInterruptedMax, to_.settings.deadline)});
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
  const S3Destination& to_;
  const UploadOptions& options_;
  const std::uint64_t bytes_;
  std::uint64_t part_bytes_ = 0;
  std::vector<std::string> conditions_;
  S3Counts counts_;
  S3Sender sender_;
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
  const S3Destination to = destination_of(s3_url);
  return Upload(file, to, options).run();
}

}  // namespace tzmark
