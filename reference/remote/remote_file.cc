// Opening remote files, and reading them: large reads by requests of their own, small ones through a read-ahead.
#include "remote/remote_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "bytes/requires.h"
#include "io/paths.h"
#include "io/url.h"
#include "remote/curl.h"
#include "remote/object.h"
#include "remote/read_ahead.h"
#include "remote/s3.h"
#include "remote/session.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

// What the first request reads: the headers and often the index. At 50 ms of delay a new connection takes as long for
// it as for 16 KiB more or less.
constexpr std::size_t kFirstBytes = 64 << 10;
// A reader of most layouts looks at the last 8 bytes before it reads anything else. Asked for at the same time as the
// first ones, they do not take a round trip of their own.
constexpr std::size_t kLastBytes = 4 << 10;
// Single reads are cut into requests of this size, of which so many are in flight.
constexpr std::size_t kRequestBytes = 2 << 20;
constexpr std::size_t kRequestsMax = 16;
// Sessions, and so connections, that are kept open while no thread needs them.
constexpr std::size_t kIdleSessionsMax = 32;
constexpr unsigned kQueueDepth = 16;
// At 50 ms of delay, loads in transfers of 2 MiB take 1.5 times as long; on the same machine, as long.
constexpr std::size_t kTransferBytes = 8 << 20;
constexpr unsigned kQueueDepthMax = 256;

// Sessions that are not in use, with their connections. Thread-safe.
class Sessions {
 public:
  explicit Sessions(std::shared_ptr<RemoteObject> object) : object_(std::move(object)) {
    idle_.reserve(kIdleSessionsMax);
  }

  std::unique_ptr<Session> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto session = std::move(idle_.back());
        idle_.pop_back();
        return session;
      }
    }
    return std::make_unique<Session>(object_);
  }
  void give_back(std::unique_ptr<Session> session) {
    session->abandon();
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kIdleSessionsMax) idle_.push_back(std::move(session));
  }

 private:
  const std::shared_ptr<RemoteObject> object_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Session>> idle_;
};

// A session in use by one thread.
class SessionUse {
 public:
  explicit SessionUse(Sessions& sessions) : sessions_(sessions), session_(sessions.take()) {}
  ~SessionUse() { sessions_.give_back(std::move(session_)); }
  SessionUse(const SessionUse&) = delete;
  SessionUse& operator=(const SessionUse&) = delete;
  Session* operator->() { return session_.get(); }

 private:
  Sessions& sessions_;
  std::unique_ptr<Session> session_;
};

class RemoteQueue final : public TransferQueue {
 public:
  RemoteQueue(Sessions& sessions, ReadAhead& read_ahead, std::uint64_t file_bytes, unsigned depth)
      : session_(sessions), read_ahead_(read_ahead), file_bytes_(file_bytes), depth_(depth) {}

  unsigned depth() const override { return depth_; }
  unsigned in_flight() const override { return static_cast<unsigned>(session().in_flight() + ready_.size()); }
  void start(Transfer& transfer) override {
    TZMARK_REQUIRES(in_flight() < depth());
    transfer.error = nullptr;
    try {
      if (transfer.kind == Transfer::Kind::kWrite) throw Error(ErrorCode::kUsage, "a remote file is only read");
      require_host_memory(transfer.memory, "http");
      const std::uint64_t there = file_bytes_ - std::min(file_bytes_, transfer.offset);
      if (transfer.memory.size > there) throw early_end(transfer.memory.size - there, file_bytes_);
      const bool was_read_ahead =
          transfer.memory.size == 0 || read_ahead_.copy_all(transfer.offset, transfer.memory.bytes());
      if (!was_read_ahead) return session().start(transfer);
    } catch (...) {
      transfer.error = std::current_exception();
    }
    ready_.push_back(&transfer);
  }
  Transfer& wait() override {
    Transfer* const transfer = take_ready();
    return transfer != nullptr ? *transfer : session().wait();
  }
  Transfer* poll() override {
    Transfer* const transfer = take_ready();
    return transfer != nullptr ? transfer : session().poll();
  }

 private:
  Transfer* take_ready() {
    if (ready_.empty()) return nullptr;
    Transfer* const transfer = ready_.back();
    ready_.pop_back();
    return transfer;
  }
  Session& session() const { return *session_.operator->(); }

  mutable SessionUse session_;
  ReadAhead& read_ahead_;
  const std::uint64_t file_bytes_;
  const unsigned depth_;
  std::vector<Transfer*> ready_;  // were read ahead, or failed before they began
};

class RemoteFile final : public File {
 public:
  RemoteFile(std::string_view io_path, std::shared_ptr<RemoteObject> object, std::unique_ptr<Session> session,
             std::vector<std::byte> beginning, std::vector<std::byte> ending)
      : io_path_(io_path), object_(std::move(object)), sessions_(object_), read_ahead_(std::move(beginning)) {
    sessions_.give_back(std::move(session));
    const std::uint64_t end_begin = size() - ending.size();
    if (!ending.empty()) read_ahead_.add(end_begin, std::move(ending));
  }

  std::string_view io_path() const override { return io_path_; }
  std::uint64_t size() const override { return object_->identity.bytes; }
  bool is_remote() const override { return true; }
  bool is_asynchronous() const override { return true; }
  unsigned queue_depth_default() const override { return kQueueDepth; }
  std::size_t transfer_bytes_default() const override { return kTransferBytes; }
  std::optional<RequestCounts> request_counts() const override { return object_->counts(); }
  std::unique_ptr<TransferQueue> make_queue(unsigned depth) override {
    return std::make_unique<RemoteQueue>(sessions_, read_ahead_, size(), std::clamp(depth, 1U, kQueueDepthMax));
  }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    require_host_memory(out, io_path());
    if (offset >= size()) return 0;
    const std::span<std::byte> bytes =
        out.bytes().first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size, size() - offset)));
    for (;;) {
      if (const std::size_t copied = read_ahead_.copy(offset, bytes); copied > 0) return copied;
      auto claim = read_ahead_.claim(offset, bytes.size(), size());
      if (!claim) continue;
      if (claim->bytes <= bytes.size()) {
        fetch(offset, bytes.first(claim->bytes));
        return claim->bytes;
      }
      std::vector<std::byte> window(claim->bytes);
      fetch(offset, window);
      std::memcpy(bytes.data(), window.data(), bytes.size());
      claim->keep(std::move(window));
      return bytes.size();
    }
  }
  std::size_t write_some(std::uint64_t, ConstBuffer) override {
    throw Error(ErrorCode::kUsage, "a remote file is only read");
  }
  void sync_all() override {}

 private:
  void fetch(std::uint64_t offset, std::span<std::byte> out) {
    std::vector<Transfer> transfers((out.size() + kRequestBytes - 1) / kRequestBytes);
    SessionUse session(sessions_);
    std::size_t started = 0;
    // The error at the lowest offset counts.
    for (std::size_t ended = 0; ended < transfers.size(); ++ended) {
      for (; started < transfers.size() && session->in_flight() < kRequestsMax; ++started) {
        const std::size_t begin = started * kRequestBytes;
        transfers[started].offset = offset + begin;
        transfers[started].memory = out.subspan(begin, std::min(kRequestBytes, out.size() - begin));
        session->start(transfers[started]);
      }
      session->wait();
    }
    for (const Transfer& transfer : transfers) {
      if (transfer.error) std::rethrow_exception(transfer.error);
    }
  }

  const std::string_view io_path_;
  const std::shared_ptr<RemoteObject> object_;
  Sessions sessions_;
  ReadAhead read_ahead_;
};

// A copy of a file whose server cannot send parts of it.
class CopiedFile final : public File {
 public:
  CopiedFile(std::string_view io_path, std::unique_ptr<File> copy, RequestCounts counts)
      : io_path_(io_path), copy_(std::move(copy)), counts_(counts), bytes_(copy_->size()) {
    counts_.is_copied = true;
  }

  std::string_view io_path() const override { return io_path_; }
  std::uint64_t size() const override { return bytes_; }
  std::optional<RequestCounts> request_counts() const override { return counts_; }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    const std::uint64_t there = bytes_ - std::min(bytes_, offset);
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(out.size, there));
    copy_->read_at(offset, out.sub(0, count));
    return count;
  }
  std::size_t write_some(std::uint64_t, ConstBuffer) override {
    throw Error(ErrorCode::kUsage, "a remote file is only read");
  }
  void sync_all() override {}

 private:
  const std::string_view io_path_;
  const std::unique_ptr<File> copy_;
  RequestCounts counts_;
  const std::uint64_t bytes_;
};

// Differs for another URL, and for the same one after a change that the server shows.
FileVersion version_of(const RemoteObject& object) {
  constexpr std::uint64_t kNoDevice = ~std::uint64_t{0};
  const std::hash<std::string> hash;
  const Identity& identity = object.identity;
  const std::string& address = object.target.address;
  return {kNoDevice, hash(address.substr(0, address.find('?'))), identity.bytes,
          static_cast<std::int64_t>(hash(identity.etag + "\n" + identity.last_modified))};
}

// Whether an address is that of a .tensors file, by its name.
bool has_tensors_name(std::string_view address) { return address.substr(0, address.find('?')).ends_with(".tensors"); }

std::unique_ptr<File> open_object(std::string_view io_path, std::shared_ptr<RemoteObject> object,
                                  const MakeCopy& make_copy) {
  std::vector<std::byte> beginning(kFirstBytes), ending;
  if (has_tensors_name(object->target.address)) ending.resize(kLastBytes);
  Transfer first, last;
  first.memory = std::span(beginning);
  last.memory = std::span(ending);
  Probe probe{.make_copy = make_copy}, end_probe{.is_of_end = true};
  auto session = std::make_unique<Session>(object);
  const auto begin = std::chrono::steady_clock::now();
  session->start(first, &probe);
  if (!ending.empty()) session->start(last, &end_probe);
  bool has_last = ending.empty();
  while (&session->wait() != &first) has_last = true;
  if (first.error) std::rethrow_exception(first.error);
  object->identity = probe.identity;
  if (!has_last) {
    // It should come at about the same time, and is not worth more than that.
    const auto now = std::chrono::steady_clock::now();
    session->set_deadline(last, now + (now - begin));
    session->wait();
  }
  beginning.resize(probe.received);
  const bool is_same = !last.error && end_probe.identity == probe.identity;
  ending.resize(is_same && probe.identity.bytes > beginning.size() ? end_probe.received : 0);
  std::unique_ptr<File> file;
  if (probe.copy) {
    file = std::make_unique<CopiedFile>(io_path, std::move(probe.copy), object->counts());
  } else {
    file = std::make_unique<RemoteFile>(io_path, object, std::move(session), std::move(beginning), std::move(ending));
  }
  file->set_version(version_of(*object));
  return file;
}

}  // namespace

std::string why_no_requests() { return Curl::instance().why_unavailable(); }
std::string why_no_signed_requests() { return Curl::instance().why_no_signatures(); }

std::unique_ptr<File> open_http(const std::string& url, const MakeCopy& make_copy) {
  const Url parsed = parse_url(url);
  Access access;
  if (!parsed.user.empty() || !parsed.password.empty()) {
    access.kind = Access::Kind::kBasic;
    access.user = parsed.user;
    access.password = parsed.password;
  }
  return open_object(
      "http", std::make_shared<RemoteObject>(Target(parsed), std::move(access), remote_settings(process_environment)),
      make_copy);
}

std::unique_ptr<File> open_s3(const std::string& url, const MakeCopy& make_copy) {
  const S3Location location = s3_location(url, aws_settings(process_environment));
  return open_object("s3",
                     std::make_shared<RemoteObject>(Target(parse_url(location.url)), location.access,
                                                    remote_settings(process_environment)),
                     make_copy);
}

}  // namespace tzmark
