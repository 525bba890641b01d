// An HTTP server that misbehaves; see http_server.h.
#include "runner/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "runner/errors.h"
#include "runner/odd_sizes.h"

namespace tzmark::conformance {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kHeadMaxBytes = 16 << 10;
constexpr std::size_t kSentAtOnceMaxBytes = 256 << 10;
// One connection must not keep the others waiting.
constexpr int kCallsAtOnceMax = 16;
// The rest of an answer comes at once: where cores are busy, each pause is as long as a turn of another process.
constexpr unsigned kPiecesMax = 64;
// Long enough for a reader to take a piece before the next one arrives.
constexpr auto kPieceInterval = std::chrono::microseconds(200);
// A last answer would be lost if the socket were closed while the other side still sends.
constexpr auto kDrainMax = std::chrono::milliseconds(250);
constexpr int kConnectMaxMilliseconds = 2000;
// Connections that others hold, or that an adapter has lost, keep the next ones out no longer than this.
constexpr auto kReplaceableAfter = std::chrono::seconds(1);
constexpr auto kDescriptorsInterval = std::chrono::milliseconds(100);

std::string random_digits() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

// The text of a head with its empty line, taken off the beginning; nothing if it is not complete.
std::optional<std::string> take_head(std::string& received) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  const std::size_t end = received.find(kEnd);
  if (end == received.npos) return std::nullopt;
  std::string head = received.substr(0, end + kEnd.size());
  received.erase(0, head.size());
  return head;
}

// Whether no head begins so, such as TLS or lines that end in LF alone, for whose end the server would wait.
bool is_no_head(std::string_view received) {
  if (received.empty()) return false;
  const char first = received.front();
  if (first < 'A' || first > 'Z') return true;
  const std::size_t line_feed = received.find('\n');
  return line_feed != received.npos && received[line_feed - 1] != '\r';
}

sockaddr_in loopback_address(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

timespec timespec_of(Clock::duration duration) {
  const auto ns = std::max<std::int64_t>(0, std::chrono::nanoseconds(duration).count());
  constexpr std::int64_t kNsPerS = 1'000'000'000;
  return {.tv_sec = ns / kNsPerS, .tv_nsec = ns % kNsPerS};
}

}  // namespace

struct HttpServer::Connection {
  enum class State {
    kReading,   // waits for a request
    kSending,   // sends an answer
    kDraining,  // has sent the last answer, and waits for the other side to end
    kEnded,
  };

  explicit Connection(Descriptor accepted, Clock::time_point until) : socket(std::move(accepted)), idle_until(until) {}

  Descriptor socket;
  State state = State::kReading;
  std::string received;  // and not answered yet
  HttpAnswer answer;
  std::uint64_t sent_bytes = 0;  // of head and body
  std::uint64_t stop_bytes = 0;  // where the answer ends, or is cut
  std::uint64_t piece_end_bytes = 0;
  unsigned pieces = 0;
  std::optional<std::uint64_t> piece_seed;
  bool is_last = false;  // the connection ends after this answer
  Clock::time_point ready_at{};
  Clock::time_point idle_until;

  Clock::time_point next_look() const { return state == State::kSending ? std::min(ready_at, idle_until) : idle_until; }

  // What poll is to wait for; nothing while a piece is not due.
  short events(Clock::time_point now) const {
    if (state == State::kSending) return ready_at <= now ? POLLOUT : 0;
    return POLLIN;
  }

  // Other processes may hold copies of the descriptor for a moment, which a close would leave open.
  void end() {
    ::shutdown(socket.get(), SHUT_RDWR);
    answer = {};
    state = State::kEnded;
  }

  void reset() {
    const linger none = {.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
    sockaddr nowhere{};
    nowhere.sa_family = AF_UNSPEC;
    // Sends a reset also where there are copies of the descriptor.
    ::connect(socket.get(), &nowhere, sizeof nowhere);
    answer = {};
    state = State::kEnded;
  }

  void begin(HttpAnswer next, bool is_last_answer) {
    answer = std::move(next);
    is_last = is_last_answer;
    sent_bytes = 0;
    stop_bytes = answer.head.size() + answer.body.size();
    ready_at = {};
    pieces = 0;
    end_piece();
    state = State::kSending;
  }

  void end_piece() {
    const bool is_small = piece_seed && pieces++ < kPiecesMax;
    piece_end_bytes = is_small ? sent_bytes + odd_piece_bytes(*piece_seed, sent_bytes, stop_bytes) : stop_bytes;
  }

  // Returns how many bytes arrived: 0 at the end of the other side, -1 if there are none yet.
  ssize_t receive(std::span<char> block) {
    for (;;) {
      const ssize_t got = ::recv(socket.get(), block.data(), block.size(), 0);
      if (got >= 0) return got;
      if (errno == EAGAIN) return -1;
      if (errno != EINTR) return 0;
    }
  }

  // Sends a part of the answer. Returns whether more can be sent at once.
  bool send_some() {
    const std::uint64_t head_bytes = answer.head.size();
    const bool is_head = sent_bytes < head_bytes;
    std::string_view rest =
        is_head ? std::string_view(answer.head).substr(sent_bytes) : answer.body.substr(sent_bytes - head_bytes);
    rest = rest.substr(0, std::min<std::uint64_t>(
                              {rest.size(), std::min(piece_end_bytes, stop_bytes) - sent_bytes, kSentAtOnceMaxBytes}));
    const ssize_t sent = ::send(socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) return true;
      if (errno != EAGAIN) end();
      return false;
    }
    sent_bytes += static_cast<std::uint64_t>(sent);
    if (sent_bytes == piece_end_bytes && sent_bytes < stop_bytes) {
      end_piece();
      ready_at = Clock::now() + kPieceInterval;
      return false;
    }
    return true;
  }
};

HttpServer::HttpServer(const HttpServerLimits& limits)
    : limits_(limits),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      directory_("/" + random_digits() + "/") {
  if (!listener_.open()) fail_call("socket");
  if (!wakeup_.open()) fail_call("eventfd");
  sockaddr_in address = loopback_address(0);
  socklen_t address_bytes = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_.get(), generic, address_bytes) != 0) fail_call("bind to 127.0.0.1");
  if (::listen(listener_.get(), SOMAXCONN) != 0) fail_call("listen on 127.0.0.1");
  if (::getsockname(listener_.get(), generic, &address_bytes) != 0) fail_call("getsockname");
  port_ = ntohs(address.sin_port);
  origin_ = fmt::format("http://127.0.0.1:{}", port_);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw EnvironmentError(fmt::format("no thread to serve HTTP: {}", error.what()));
  }
}

HttpServer::~HttpServer() {
  stopping_ = true;
  wake();
  thread_.join();
  for (Connection& connection : connections_) connection.end();
}

void HttpServer::check_reachable() const {
  const Descriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!client.open()) fail_call("socket");
  const sockaddr_in address = loopback_address(port_);
  if (::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return;
  if (errno != EINPROGRESS) fail_call("connect to 127.0.0.1");
  pollfd connected = {client.get(), POLLOUT, 0};
  int error = ETIMEDOUT;
  socklen_t error_bytes = sizeof error;
  if (::poll(&connected, 1, kConnectMaxMilliseconds) > 0) {
    ::getsockopt(client.get(), SOL_SOCKET, SO_ERROR, &error, &error_bytes);
  }
  errno = error;
  if (error != 0) fail_call("connect to 127.0.0.1");
}

void HttpServer::wake() const {
  const std::uint64_t one = 1;
  // It can only fail if the thread is to wake up anyway.
  [[maybe_unused]] const ssize_t written = ::write(wakeup_.get(), &one, sizeof one);
}

std::string HttpServer::serve(std::string_view name, std::span<const std::byte> content, std::string_view sha256,
                              const HttpBehaviour& behaviour) {
  withdraw();
  constexpr std::size_t kEtagDigits = 32;
  const std::string target = directory_ + percent_encoded(name);
  const std::lock_guard lock(mutex_);
  served_.emplace(Served{.target = target,
                         .file = {.content = {reinterpret_cast<const char*>(content.data()), content.size()},
                                  .etag = fmt::format("\"{}\"", sha256.substr(0, kEtagDigits)),
                                  .has_ranges = behaviour.has_ranges},
                         .behaviour = behaviour,
                         .faults = HttpFaults(behaviour)});
  return origin_ + target;
}

HttpCounts HttpServer::withdraw() {
  const std::lock_guard lock(mutex_);
  if (!served_) return {};
  for (Connection& connection : connections_) {
    if (connection.state == Connection::State::kSending) connection.end();
  }
  const HttpCounts counts = served_->counts;
  served_.reset();
  wake();
  return counts;
}

std::size_t HttpServer::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

void HttpServer::run() {
  std::vector<pollfd> polled;
  while (!stopping_) {
    auto now = Clock::now();
    auto look = now + std::chrono::hours(1);
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(connections_, [](const Connection& each) { return each.state == Connection::State::kEnded; });
      const bool has_room = connections_.size() < limits_.connections_max;
      const auto replaceable_at = has_room ? now : idle_since(*idlest()) + kReplaceableAfter;
      const bool accepts = !lacks_descriptors_ && replaceable_at <= now;
      if (lacks_descriptors_) look = now + kDescriptorsInterval;
      if (replaceable_at > now) look = std::min(look, replaceable_at);
      polled = {{wakeup_.get(), POLLIN, 0}, {listener_.get(), static_cast<short>(accepts ? POLLIN : 0), 0}};
      for (const Connection& connection : connections_) {
        polled.push_back({connection.socket.get(), connection.events(now), 0});
        const auto next = connection.events(now) == 0 ? connection.next_look() : connection.idle_until;
        look = std::min(look, next);
      }
      lacks_descriptors_ = false;
    }
    const timespec timeout = timespec_of(look - now);
    if (::ppoll(polled.data(), polled.size(), &timeout, nullptr) < 0) continue;  // EINTR: no events are set
    now = Clock::now();
    if (polled[0].revents != 0) {
      std::uint64_t woken = 0;
      [[maybe_unused]] const ssize_t got = ::read(wakeup_.get(), &woken, sizeof woken);
    }
    const std::lock_guard lock(mutex_);
    auto event = polled.begin() + 2;
    for (Connection& connection : connections_) {
      const short happened = (event++)->revents;
      if (connection.state == Connection::State::kEnded) continue;
      const bool is_gone = (happened & (POLLERR | POLLHUP | POLLNVAL)) != 0;
      if (is_gone || now >= connection.idle_until) {
        connection.end();
      } else if (happened != 0 || (connection.state == Connection::State::kSending && now >= connection.ready_at)) {
        go_on(connection);
      }
    }
    if (polled[1].revents != 0) accept_all();
  }
}

std::list<HttpServer::Connection>::iterator HttpServer::idlest() {
  return std::ranges::min_element(connections_, {}, &Connection::idle_until);
}

std::chrono::steady_clock::time_point HttpServer::idle_since(const Connection& connection) const {
  return connection.idle_until - limits_.idle_max;
}

void HttpServer::accept_all() {
  // One at a time in place of another: whether the next one may go is looked at again.
  for (bool has_room = true; has_room; has_room = connections_.size() < limits_.connections_max) {
    Descriptor accepted(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!accepted.open()) {
      // Without a pause, the connection that waits would keep this thread busy.
      lacks_descriptors_ = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
      return;
    }
    std::erase_if(connections_, [](const Connection& each) { return each.state == Connection::State::kEnded; });
    if (connections_.size() >= limits_.connections_max) {
      const auto replaced = idlest();
      replaced->end();
      connections_.erase(replaced);
    }
    const int one = 1;
    ::setsockopt(accepted.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    connections_.emplace_back(std::move(accepted), Clock::now() + limits_.idle_max);
  }
}

void HttpServer::go_on(Connection& connection) {
  using State = Connection::State;
  std::array<char, 4096> block;
  for (int calls = 0; connection.state != State::kEnded;) {
    if (connection.state == State::kSending) {
      if (connection.sent_bytes < connection.stop_bytes) {
        const std::uint64_t before_bytes = connection.sent_bytes;
        const bool can_go_on = connection.send_some();
        if (connection.sent_bytes != before_bytes) connection.idle_until = Clock::now() + limits_.idle_max;
        if (!can_go_on || ++calls == kCallsAtOnceMax) return;
        continue;
      }
      connection.answer = {};
      connection.state = connection.is_last ? State::kDraining : State::kReading;
      if (!connection.is_last) continue;
      ::shutdown(connection.socket.get(), SHUT_WR);
      connection.idle_until = Clock::now() + kDrainMax;
    }
    if (connection.state == State::kReading) {
      if (const auto head = take_head(connection.received)) {
        answer(connection, *head);
        continue;
      }
      const bool is_too_long = connection.received.size() > kHeadMaxBytes;
      if (is_too_long || is_no_head(connection.received)) {
        connection.begin(answer_of_status(is_too_long ? 431 : 400), true);
        continue;
      }
    }
    const ssize_t got = connection.receive(block);
    if (got == 0) return connection.end();
    if (got < 0) return;
    if (connection.state == State::kDraining) {
      if (++calls >= kCallsAtOnceMax) return;
      continue;
    }
    connection.received.append(block.data(), static_cast<std::size_t>(got));
    connection.idle_until = Clock::now() + limits_.idle_max;
  }
}

void HttpServer::answer(Connection& connection, std::string_view head) {
  const auto request = parse_http_request(head);
  connection.piece_seed.reset();
  if (!request) return connection.begin(answer_of_status(400), true);
  const bool is_head = request->method == "HEAD";
  if (!is_head && request->method != "GET") {
    return connection.begin(answer_of_status(405, false, "Allow: GET, HEAD\r\n"), true);
  }
  const bool keeps = request->keeps_connection;
  const bool is_known = served_ && request->target == served_->target;
  HttpAnswer next = is_known ? answer_about(*request, served_->file) : answer_of_status(404, keeps);
  HttpFault fault = HttpFault::kNone;
  if (is_known) {
    fault = served_->faults.next(*request, next);
    ++served_->counts.requests;
    if (fault != HttpFault::kNone) ++served_->counts.faults;
    if (served_->behaviour.is_in_pieces) connection.piece_seed = served_->behaviour.seed;
  }
  if (fault == HttpFault::kReset) return connection.reset();
  if (fault == HttpFault::kUnavailable) next = answer_of_status(503, keeps, "Retry-After: 0\r\n");
  if (fault == HttpFault::kTooManyRequests) next = answer_of_status(429, keeps);
  if (is_head) next.body = {};
  connection.begin(std::move(next), !keeps || fault == HttpFault::kCut);
  if (fault == HttpFault::kCut) connection.stop_bytes -= (connection.answer.body.size() + 1) / 2;
}

}  // namespace tzmark::conformance
