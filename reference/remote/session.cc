// See remote/session.h.
#include "remote/session.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <new>
#include <span>
#include <utility>

#include "bytes/requires.h"
#include "bytes/utf8.h"
#include "io/sigpipe_block.h"
#include "io/wait_check.h"
#include "remote/easy.h"
#include "remote/link_local.h"

namespace tzmark {
namespace {

using std::chrono::milliseconds;

// The body of an error is read only to keep the connection; of S3 it also has a code.
constexpr std::size_t kDiscardedBytesMax = 64 << 10;
constexpr std::size_t kErrorBodyBytesMax = 2 << 10;
// Less than this within the time for a stall is a stall.
constexpr std::uint64_t kStallBytes = 1 << 10;
// A copy of a whole file that is slower than this, over the time of a deadline, ends there.
constexpr std::uint64_t kLeastCopyBytesPerS = 64 << 10;
// A thread that was busy elsewhere for so long has not stalled a transfer.
constexpr milliseconds kBusyMin{500};
// Of libcurl, per request. Those of all requests in flight fit into the L2 cache: loads from nginx on the same machine
// reach 2.1 GB/s on two cores, and 1.5 GB/s with 512 KiB (the best of five each).
constexpr long kBufferBytes = 128 << 10;
constexpr const char* kLinkLocalRefused = "refused: the server redirects to a link-local address";
// Limits are looked at so often.
constexpr milliseconds kLookMax{250};

void require_ok(CURLMcode code) {
  if (code != CURLM_OK) throw Error(ErrorCode::kReadFailed, fmt::format("libcurl: {}", curl().multi_strerror(code)));
}

bool is_link_local(const curl_sockaddr& address) {
  if (address.family == AF_INET) {
    sockaddr_in ip{};
    std::memcpy(&ip, &address.addr, sizeof(ip));
    return is_link_local_address(ip.sin_addr);
  }
  if (address.family != AF_INET6) return false;
  // curl.h declares less than the room that an IPv6 address takes there.
  sockaddr_in6 ip{};
  const auto* const memory = reinterpret_cast<const unsigned char*>(&address) + offsetof(curl_sockaddr, addr);
  std::memcpy(&ip, memory, std::min<std::size_t>(sizeof(ip), address.addrlen));
  return is_link_local_address(ip.sin6_addr);
}

}  // namespace

Session::Session(std::shared_ptr<RemoteObject> object)
    : object_(std::move(object)), random_(std::random_device()()), driven_at_(Clock::now()) {
  multi_ = curl().multi_init();
  if (multi_ == nullptr) throw std::bad_alloc();
}

Session::~Session() {
  const SigpipeBlock block;
  abandon();
  for (const auto& slot : slots_) {
    curl().easy_cleanup(slot->easy);
    curl().slist_free_all(slot->fields);
  }
  curl().multi_cleanup(multi_);
}

void Session::abandon() {
  const SigpipeBlock block;
  for (const auto& slot : slots_) {
    if (slot->state == State::kRunning) take_off(*slot);
    slot->state = State::kIdle;
  }
  ready_.clear();
  in_flight_ = 0;
}

Session::Slot& Session::free_slot() {
  const auto found = std::ranges::find(slots_, State::kIdle, [](const auto& slot) { return slot->state; });
  if (found != slots_.end()) return **found;
  auto slot = std::make_unique<Slot>();
  slot->session = this;
  slot->easy = curl().easy_init();
  if (slot->easy == nullptr) throw std::bad_alloc();
  slots_.push_back(std::move(slot));
  return *slots_.back();
}

void Session::start(Transfer& transfer, Probe* probe) {
  transfer.error = nullptr;
  Slot& slot = free_slot();
  slot.transfer = &transfer;
  slot.probe = probe;
  slot.done = 0;
  slot.requests = slot.failures = slot.redirects = 0;
  slot.moved.reset();
  slot.has_returned = false;
  slot.begin = Clock::now();
  slot.deadline = slot.begin + object_->settings.deadline;
  slot.error = nullptr;
  ++in_flight_;
  if (transfer.memory.size == 0) return finish(slot);
  send(slot);
}

void Session::set_deadline(const Transfer& transfer, Clock::time_point deadline) {
  const auto found = std::ranges::find_if(
      slots_, [&](const auto& slot) { return slot->state != State::kIdle && slot->transfer == &transfer; });
  TZMARK_REQUIRES(found != slots_.end());
  (*found)->deadline = deadline;
}

Transfer& Session::wait() {
  TZMARK_REQUIRES(in_flight_ > 0);
  for (;;) {
    if (Transfer* const transfer = poll()) return *transfer;
    check_wait();
    const auto most = time_to_next(Clock::now());
    require_ok(curl().multi_poll(multi_, nullptr, 0, static_cast<int>(most.count()), nullptr));
  }
}

Transfer* Session::poll() {
  if (ready_.empty() && in_flight_ > 0) drive();
  if (ready_.empty()) return nullptr;
  Slot& slot = *ready_.front();
  ready_.pop_front();
  slot.state = State::kIdle;
  --in_flight_;
  return slot.transfer;
}

void Session::drive() {
  const SigpipeBlock block;
  for (const auto& slot : slots_) {
    if (slot->state == State::kPausing && slot->next_at <= Clock::now()) send(*slot);
  }
  auto now = Clock::now();
  // While the thread was busy, or fetched credentials, nothing was received, and that is not the server's fault. What
  // began since then has waited only from then on.
  if (now - driven_at_ > kBusyMin) {
    for (const auto& slot : slots_) {
      slot->mark += std::max(now - std::max(driven_at_, slot->mark), Clock::duration::zero());
      slot->deadline += now - std::max(driven_at_, slot->begin);
    }
  }
  int running = 0;
  require_ok(curl().multi_perform(multi_, &running));
  std::vector<std::pair<Slot*, CURLcode>> ended;
  int left = 0;
  while (const CURLMsg* const message = curl().multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    ended.emplace_back(information<Slot*>(message->easy_handle, CURLINFO_PRIVATE), message->data.result);
  }
  for (const auto& [slot, code] : ended) {
    take_off(*slot);
    end_request(*slot, code);
  }
  now = Clock::now();
  check_limits(now);
  driven_at_ = now;
}

void Session::check_limits(Clock::time_point now) {
  for (const auto& owned : slots_) {
    Slot& slot = *owned;
    if (slot.state != State::kRunning) continue;
    if (slot.received + slot.discarded >= slot.mark_bytes + kStallBytes) {
      slot.mark_bytes = slot.received + slot.discarded;
      slot.mark = now;
    }
    // A copy of a whole file takes as long as it takes, but not for ever.
    if (slot.body == Body::kCopy && slot.received >= slot.copied_bytes + least_copied_bytes()) {
      slot.copied_bytes = slot.received;
      slot.deadline = now + object_->settings.deadline;
    }
    if (now >= slot.deadline) {
      take_off(slot);
      fail(slot, ErrorCode::kReadFailed,
           fmt::format("not complete at its deadline of {} s", object_->settings.deadline.count() / 1000));
    } else if (now - slot.mark >= object_->settings.stall_max) {
      take_off(slot);
      retry(slot, fmt::format("stalled: less than {} bytes in {} s", kStallBytes,
                              object_->settings.stall_max.count() / 1000));
    }
  }
}

milliseconds Session::time_to_next(Clock::time_point now) const {
  auto most = kLookMax;
  for (const auto& slot : slots_) {
    if (slot->state != State::kPausing && slot->state != State::kRunning) continue;
    const auto next = slot->state == State::kPausing ? slot->next_at : slot->deadline;
    most = std::min(most, std::chrono::ceil<milliseconds>(next - now));
  }
  return std::max(most, milliseconds(0));
}

void Session::take_off(Slot& slot) {
  // Closes the connection, or with HTTP/2 the stream, unless the answer was read to its end.
  curl().multi_remove_handle(multi_, slot.easy);
}

void Session::send(Slot& slot) {
  slot.target = slot.moved ? *slot.moved : object_->current();
  slot.answer = Answer();
  slot.body = Body::kUnknown;
  slot.file_bytes.reset();
  slot.received = slot.discarded = slot.mark_bytes = slot.copied_bytes = 0;
  slot.error_body.clear();
  slot.bad_answer.clear();
  slot.text.front() = '\0';
  if (slot.probe != nullptr) {
    slot.done = 0;
    slot.probe->copy.reset();
  }
  slot.wanted = slot.transfer->memory.size - slot.done;
  try {
    set_options(slot);
    require_ok(curl().multi_add_handle(multi_, slot.easy));
  } catch (...) {
    slot.error = std::current_exception();
    return finish(slot);
  }
  slot.state = State::kRunning;
  slot.mark = Clock::now();
  ++slot.requests;
  ++object_->requests;
}

void Session::set_options(Slot& slot) {
  CURL* const easy = slot.easy;
  curl().easy_reset(easy);
  curl().slist_free_all(std::exchange(slot.fields, nullptr));
  const RemoteSettings& settings = object_->settings;
  set_common_options(easy, settings, *slot.target, slot.text.data());
  set_option(easy, CURLOPT_PRIVATE, &slot);
  set_option(easy, CURLOPT_HEADERFUNCTION, &Session::on_header);
  set_option(easy, CURLOPT_HEADERDATA, &slot);
  set_option(easy, CURLOPT_WRITEFUNCTION, &Session::on_body);
  set_option(easy, CURLOPT_WRITEDATA, &slot);
  set_option(easy, CURLOPT_OPENSOCKETFUNCTION, &Session::on_socket);
  set_option(easy, CURLOPT_OPENSOCKETDATA, &slot);
  // Refused where a handle has its buffer already, which then is as large.
  curl().easy_setopt(easy, CURLOPT_BUFFERSIZE, kBufferBytes);
  const std::uint64_t begin = slot.transfer->offset + slot.done;
  const std::string range =
      is_of_end(slot) ? fmt::format("-{}", slot.wanted) : fmt::format("{}-{}", begin, begin + slot.wanted - 1);
  set_option(easy, CURLOPT_RANGE, range.c_str());
  if (slot.probe == nullptr) {
    const Identity& identity = object_->identity;
    if (is_strong(identity.etag)) {
      if (can_be_sent(identity.etag)) add_field(slot, fmt::format("If-Match: {}", identity.etag));
    } else if (can_be_sent(identity.last_modified)) {
      add_field(slot, fmt::format("If-Unmodified-Since: {}", identity.last_modified));
    }
  }
  if (slot.target->origin == object_->target.origin) set_access(slot);
  set_option(easy, CURLOPT_HTTPHEADER, slot.fields);
}

void Session::set_access(Slot& slot) {
  for (const std::string& field : set_access_options(slot.easy, object_->access)) add_field(slot, field);
  if (object_->access.kind != Access::Kind::kAws) return;
  // The SHA-256 of no body, which early versions do not send.
  add_field(slot, "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

void Session::add_field(Slot& slot, const std::string& field) {
  curl_slist* const longer = curl().slist_append(slot.fields, field.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  slot.fields = longer;
}

std::size_t Session::on_header(char* data, std::size_t size, std::size_t count, void* pointer) {
  Slot& slot = *static_cast<Slot*>(pointer);
  // No exception may pass through libcurl.
  try {
    if (slot.answer.add_line({data, size * count})) return size * count;
    slot.bad_answer = "the header of the answer is too large";
  } catch (...) {
    slot.error = std::current_exception();
  }
  return 0;
}

std::size_t Session::on_body(char* data, std::size_t size, std::size_t count, void* pointer) {
  Slot& slot = *static_cast<Slot*>(pointer);
  try {
    const std::span<const char> text(data, size * count);
    if (slot.session->take_body(slot, std::as_bytes(text))) return text.size();
  } catch (...) {
    slot.error = std::current_exception();
  }
  return 0;
}

curl_socket_t Session::on_socket(void* pointer, curlsocktype, curl_sockaddr* address) {
  Slot& slot = *static_cast<Slot*>(pointer);
  if (slot.target->origin != slot.session->object_->target.origin && is_link_local(*address)) {
    slot.session->refuse(slot, ErrorCode::kReadFailed, kLinkLocalRefused);
    return CURL_SOCKET_BAD;
  }
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// Returns false to end the request.
bool Session::take_body(Slot& slot, std::span<const std::byte> data) {
  if (slot.body == Body::kUnknown) judge(slot);
  if (slot.error || !slot.bad_answer.empty()) return false;
  switch (slot.body) {
    case Body::kPart:
      if (data.size() > slot.wanted - slot.received) {
        slot.bad_answer = fmt::format("the body is longer than the {} bytes that were asked for", slot.wanted);
        return false;
      }
      std::memcpy(slot.transfer->memory.data + slot.done + slot.received, data.data(), data.size());
      break;
    case Body::kCopy:
      require_copy_fits(slot, slot.received + data.size());
      slot.probe->copy->write_at(slot.received, data);
      break;
    default:
      slot.discarded += data.size();
      if (slot.error_body.size() < kErrorBodyBytesMax) {
        slot.error_body.append(reinterpret_cast<const char*>(data.data()), data.size());
      }
      return slot.discarded <= kDiscardedBytesMax;
  }
  slot.received += data.size();
  object_->received_bytes += data.size();
  return true;
}

// Decides what becomes of the body, when the header is there.
void Session::judge(Slot& slot) {
  slot.body = Body::kDiscarded;
  const Answer& answer = slot.answer;
  // rclone sends parts with status 200.
  const bool is_part_of_200 =
      answer.status() == 200 && answer.range() && answer.range()->first && answer.content_length();
  if (answer.status() == 206 || is_part_of_200) {
    judge_part(slot);
  } else if (answer.status() == 200) {
    judge_whole(slot);
  }
}

bool Session::refuse_if_changed(Slot& slot) {
  const std::string changed = difference(object_->identity, slot.answer);
  if (changed.empty()) return false;
  refuse(slot, ErrorCode::kFileChanged, "the file changed on the server while it was read: " + changed);
  return true;
}

void Session::judge_part(Slot& slot) {
  const Answer& answer = slot.answer;
  const auto& range = answer.range();
  std::uint64_t first = slot.transfer->offset + slot.done;
  if (is_of_end(slot) && range && range->total)
    first = *range->total - std::min<std::uint64_t>(slot.wanted, *range->total);
  if (slot.probe == nullptr && refuse_if_changed(slot)) return;
  if (!answer.encoding().empty()) {
    slot.bad_answer = fmt::format("the body is encoded ({})", answer.encoding());
  } else if (!range || !range->first) {
    slot.bad_answer = "a part of the file without a valid Content-Range";
  } else if (slot.probe != nullptr && !range->total) {
    slot.bad_answer = "a part of the file without the size of the file";
  } else {
    const std::uint64_t end =
        slot.probe == nullptr ? first + slot.wanted : std::min(first + slot.wanted, *range->total);
    if (*range->first != first || *range->last != end - 1) {
      slot.bad_answer = fmt::format("bytes {} to {}, instead of {} to {}", *range->first, *range->last, first, end - 1);
    } else if (answer.content_length() && *answer.content_length() != end - first) {
      slot.bad_answer = fmt::format("Content-Length {} for a range of {} bytes", *answer.content_length(), end - first);
    } else {
      slot.wanted = static_cast<std::size_t>(end - first);
      slot.file_bytes = range->total;
      slot.body = Body::kPart;
    }
  }
}

void Session::judge_whole(Slot& slot) {
  const Answer& answer = slot.answer;
  if (is_of_end(slot)) return refuse(slot, ErrorCode::kReadFailed, "no part of the file");
  // A server may answer so where the range is all of the file.
  const std::uint64_t first = slot.transfer->offset + slot.done;
  const bool is_all =
      first == 0 && answer.content_length() && answer.encoding().empty() &&
      (slot.probe != nullptr ? *answer.content_length() <= slot.wanted
                             : *answer.content_length() == slot.wanted && slot.wanted == object_->identity.bytes);
  if (is_all) {
    if (slot.probe == nullptr) refuse_if_changed(slot);
    slot.wanted = static_cast<std::size_t>(*answer.content_length());
    slot.body = Body::kPart;
    return;
  }
  if (slot.probe == nullptr) {
    return refuse(slot, ErrorCode::kReadFailed,
                  "the server answered a request for a part of the file with all of it (HTTP 200)");
  }
  if (!answer.encoding().empty()) {
    return refuse(slot, ErrorCode::kReadFailed, fmt::format("the server encodes the file ({})", answer.encoding()));
  }
  if (!answer.ends_marked()) {
    return refuse(slot, ErrorCode::kReadFailed,
                  "the server sends neither parts of the file nor its length, so a cut answer would look complete");
  }
  if (answer.content_length()) require_copy_fits(slot, *answer.content_length());
  slot.probe->copy = slot.probe->make_copy();
  if (answer.content_length()) slot.probe->copy->reserve(*answer.content_length());
  slot.body = Body::kCopy;
}

std::uint64_t Session::least_copied_bytes() const {
  return kLeastCopyBytesPerS * static_cast<std::uint64_t>(object_->settings.deadline.count()) / 1000;
}

// Throws what ends the transfer.
void Session::require_copy_fits(const Slot& slot, std::uint64_t bytes) const {
  const std::uint64_t bytes_max = object_->settings.copy_bytes_max;
  if (bytes <= bytes_max) return;
  throw error_of(slot, ErrorCode::kReadFailed,
                 fmt::format("the server sends no parts of the file, and all of it has more than {} MiB; "
                             "TZMARK_HTTP_COPY_MIB allows a larger copy",
                             bytes_max >> 20));
}

void Session::end_request(Slot& slot, CURLcode code) {
  if (slot.state == State::kReady) return;
  // What a cut header says is not all that the server says.
  const bool has_header = slot.answer.status() != 0 && slot.answer.is_complete();
  if (!slot.error && slot.bad_answer.empty() && slot.body == Body::kUnknown && has_header) {
    try {
      judge(slot);
    } catch (...) {
      slot.error = std::current_exception();
    }
  }
  if (slot.error) return finish(slot);
  if (!slot.bad_answer.empty()) return retry(slot, "invalid answer: " + slot.bad_answer);
  const bool is_read = code == CURLE_OK || (code == CURLE_WRITE_ERROR && slot.discarded > kDiscardedBytesMax);
  if (slot.body == Body::kDiscarded && (is_read || !is_repeatable(code) || slot.answer.status() >= 400)) {
    return refuse_status(slot);
  }
  if (code != CURLE_OK) {
    const std::string problem = curl_problem(code, slot.text.data());
    if (!is_repeatable(code)) return fail(slot, ErrorCode::kReadFailed, problem);
    return retry(slot,
                 slot.received == 0 ? problem : fmt::format("{} after {} bytes of a body", problem, slot.received));
  }
  if (!has_header) return retry(slot, slot.answer.status() == 0 ? "no answer" : "the header of the answer was cut");
  if (slot.body == Body::kPart && slot.received < slot.wanted) {
    return retry(slot, fmt::format("the body ended after {} of {} bytes", slot.received, slot.wanted));
  }
  if (slot.body == Body::kCopy && slot.answer.content_length() && slot.received != *slot.answer.content_length()) {
    return retry(slot,
                 fmt::format("the body ended after {} of {} bytes", slot.received, *slot.answer.content_length()));
  }
  if (slot.moved) object_->remember(*slot.moved);
  if (slot.probe != nullptr) {
    slot.probe->identity = {slot.file_bytes.value_or(slot.received), slot.answer.etag(), slot.answer.last_modified()};
    slot.probe->received = slot.body == Body::kCopy ? 0 : slot.wanted;
  }
  finish(slot);
}

// What is neither a part of the file nor all of it.
void Session::refuse_status(Slot& slot) {
  const int status = slot.answer.status();
  const auto& range = slot.answer.range();
  const std::string text = status_text(status);
  if (is_redirect(status)) return follow(slot);
  if (is_of_end(slot)) return fail(slot, ErrorCode::kReadFailed, text);
  if (status == 416 && slot.probe != nullptr && range && range->total == std::uint64_t{0}) {
    slot.probe->identity = {0, slot.answer.etag(), slot.answer.last_modified()};
    return finish(slot);
  }
  if (status == 412 || (status == 416 && slot.probe == nullptr)) {
    return fail(slot, ErrorCode::kFileChanged,
                fmt::format("the file changed on the server while it was read ({})", text));
  }
  // The address of a store expires, so a new one is fetched.
  const bool is_refusal = status == 401 || status == 403 || status == 404 || status == 410;
  if (is_refusal && !slot.has_returned && object_->forget(*slot.target) && slot.redirects == 0) {
    slot.has_returned = true;
    ++object_->retries;
    return send(slot);
  }
  const std::string code = object_->access.kind == Access::Kind::kBasic ? "" : s3_code(slot.error_body);
  const std::string problem = code.empty() ? text : fmt::format("{}, {}", text, code);
  if (is_temporary_status(status)) return retry(slot, problem);
  const bool has_access = object_->access.kind != Access::Kind::kNone;
  fail(slot, ErrorCode::kReadFailed,
       (status == 401 || status == 403) && !has_access ? problem + ", for a request without credentials" : problem);
}

void Session::follow(Slot& slot) {
  const std::string text = status_text(slot.answer.status());
  const auto* const location = information<char*>(slot.easy, CURLINFO_REDIRECT_URL);
  if (location == nullptr) {
    const std::string& region = slot.answer.bucket_region();
    return fail(slot, ErrorCode::kReadFailed,
                region.empty()
                    ? text + " without an address"
                    : fmt::format("{}: the bucket is in region {}: set AWS_REGION", text, printable(region)));
  }
  if (++slot.redirects > object_->settings.redirects_max) {
    return fail(slot, ErrorCode::kReadFailed, fmt::format("more than {} redirects", object_->settings.redirects_max));
  }
  const std::string scheme = url_scheme(location);
  const bool was_secure = slot.target->origin.starts_with("https:");
  if (scheme != "https" && (scheme != "http" || was_secure)) {
    return fail(slot, ErrorCode::kReadFailed,
                fmt::format("{} to {}, which is refused", text,
                            scheme == "http" ? "http from https" : "an address that is neither http nor https"));
  }
  try {
    const Url url = parse_url(location);
    // A proxy would connect to it, where no socket of this process is seen.
    if (url.origin() != object_->target.origin && is_link_local_host(url.host)) {
      return fail(slot, ErrorCode::kReadFailed, kLinkLocalRefused);
    }
    slot.moved = Target(url);
  } catch (const Error& error) {
    return fail(slot, ErrorCode::kReadFailed, fmt::format("{} to an {}", text, error.message()));
  }
  send(slot);
}

void Session::retry(Slot& slot, const std::string& problem) {
  if (is_of_end(slot)) return fail(slot, ErrorCode::kReadFailed, problem);
  const std::uint64_t received = slot.body == Body::kPart ? slot.received : 0;
  slot.done += static_cast<std::size_t>(received);
  slot.failures = received > 0 && slot.probe == nullptr ? 1 : slot.failures + 1;
  if (slot.failures >= object_->settings.attempts_max) return fail(slot, ErrorCode::kReadFailed, problem);
  // All of the part may have come before the failure.
  if (slot.probe == nullptr && slot.done == slot.transfer->memory.size) return finish(slot);
  std::optional<std::chrono::seconds> retry_after;
  if (slot.answer.retry_after()) retry_after = parse_retry_after(*slot.answer.retry_after(), std::time(nullptr));
  const auto now = Clock::now();
  slot.next_at = now + pause_before_retry(object_->settings, slot.failures, retry_after, random_);
  if (slot.next_at >= slot.deadline) {
    return fail(slot, ErrorCode::kReadFailed,
                fmt::format("{}; the next attempt would be after the deadline of {} s", problem,
                            object_->settings.deadline.count() / 1000));
  }
  // The address of a redirect is used only once: the next one may be another.
  slot.moved.reset();
  slot.redirects = 0;
  slot.state = State::kPausing;
  ++object_->retries;
}

void Session::finish(Slot& slot) {
  slot.transfer->error = std::exchange(slot.error, nullptr);
  slot.state = State::kReady;
  ready_.push_back(&slot);
}

void Session::refuse(Slot& slot, ErrorCode code, const std::string& problem) {
  slot.error = std::make_exception_ptr(error_of(slot, code, problem));
}

void Session::fail(Slot& slot, ErrorCode code, const std::string& problem) {
  refuse(slot, code, problem);
  finish(slot);
}

Error Session::error_of(const Slot& slot, ErrorCode code, const std::string& problem) const {
  const std::uint64_t offset = slot.transfer->offset + slot.done;
  std::string text = problem;
  if (slot.requests > 1) {
    const std::chrono::duration<double> elapsed = Clock::now() - slot.begin;
    text += fmt::format("; {} requests in {:.1f} s", slot.requests, elapsed.count());
  }
  if (slot.probe != nullptr) {
    return {code == ErrorCode::kReadFailed ? ErrorCode::kOpenFailed : code, "cannot open: " + text};
  }
  return {code, text, offset};
}

}  // namespace tzmark
