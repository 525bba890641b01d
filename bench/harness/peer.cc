// Exchanges lines with a driver; see peer.h.
#include "harness/peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "harness/errno_error.h"

namespace tzmark::bench {
namespace {

constexpr std::chrono::seconds kQuitTime(3);
// Answers have some kilobytes and a few levels; what writes them out again calls itself for each level.
constexpr std::size_t kLineBytesMax = std::size_t{16} << 20;
constexpr int kLevelsMax = 64;

Error call_failed(const char* call) { return errno_error(ErrorCode::kResource, call); }

// Returns whether the descriptor becomes ready for the events before the deadline.
bool wait_for(int fd, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::max(Clock::duration::zero(), deadline - Clock::now());
    const timespec timeout = {left / std::chrono::seconds(1), (left % std::chrono::seconds(1)).count()};
    pollfd ready = {fd, events, 0};
    const int result = ::ppoll(&ready, 1, &timeout, nullptr);
    // A descriptor that is always ready must not outlast the deadline.
    if (result >= 0) return result > 0 && left > Clock::duration::zero();
    if (errno != EINTR) throw call_failed("ppoll");
  }
}

}  // namespace

Peer::Peer(const std::vector<std::string>& argv, std::chrono::milliseconds timeout)
    : name_(fmt::format("{}", fmt::join(argv, " "))) {
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) throw call_failed("socketpair");
  to_ = Descriptor(sockets[0]);
  Descriptor stdin_end(sockets[1]);
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw call_failed("pipe2");
  from_ = Descriptor(pipe[0]);
  Descriptor stdout_end(pipe[1]);
  child_ = std::make_unique<Child>(argv, stdin_end.get(), stdout_end.get(), stderr_.descriptor());
  // The child has copies. An open copy here would hide the end of the driver's output.
  stdin_end = Descriptor();
  stdout_end = Descriptor();
  hello_ = receive(Clock::now() + timeout);
  if (hello_.contains("unavailable")) {
    throw Error(ErrorCode::kUnavailable, fmt::format("{}: {}", name_, hello_["unavailable"].dump()));
  }
}

Peer::~Peer() {
  if (!child_) return;
  // A destructor cannot report failure, and Child ends the driver in any case.
  try {
    send("{\"op\": \"quit\"}\n", Clock::now() + kQuitTime);
    to_ = Descriptor();
    child_->wait_until(Clock::now() + kQuitTime);
  } catch (const std::exception&) {
    child_->kill();
  }
}

nlohmann::json Peer::request(const nlohmann::json& question, std::chrono::milliseconds timeout) {
  if (!child_) throw Error(ErrorCode::kResource, fmt::format("{} has ended", name_));
  const Clock::time_point deadline = Clock::now() + timeout;
  // What follows an answer would be taken for the next one.
  if (!received_.empty()) give_up("said more than it was asked");
  send(question.dump() + "\n", deadline);
  nlohmann::json reply = receive(deadline);
  if (reply.contains("error")) {
    throw Error(ErrorCode::kResource, fmt::format("{}: {}", name_, reply["error"].dump()));
  }
  return reply;
}

void Peer::send(const std::string& line, Clock::time_point deadline) {
  for (std::size_t done = 0; done < line.size();) {
    if (!wait_for(to_.get(), POLLOUT, deadline)) give_up("does not read its request");
    const ssize_t sent = ::send(to_.get(), line.data() + done, line.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      done += static_cast<std::size_t>(sent);
    } else if (errno != EINTR && errno != EAGAIN) {
      give_up("closed its input");
    }
  }
}

nlohmann::json Peer::receive(Clock::time_point deadline) {
  std::size_t end = 0, searched = 0;
  while ((end = received_.find('\n', searched)) == std::string::npos) {
    searched = received_.size();
    if (searched > kLineBytesMax) give_up(fmt::format("answered with more than {} bytes in a line", kLineBytesMax));
    if (!wait_for(from_.get(), POLLIN, deadline)) give_up("did not answer in time");
    std::array<char, 4096> block{};
    const ssize_t got = ::read(from_.get(), block.data(), block.size());
    if (got < 0 && errno != EINTR) throw call_failed("read");
    if (got == 0) give_up("has ended");
    if (got > 0) received_.append(block.data(), static_cast<std::size_t>(got));
  }
  const std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  bool is_too_deep = false;
  const auto look_at_depth = [&](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
    is_too_deep = is_too_deep || depth > kLevelsMax;
    return !is_too_deep;
  };
  nlohmann::json reply = nlohmann::json::parse(line, look_at_depth, false);
  if (is_too_deep) give_up(fmt::format("answered with values that are nested more than {} levels deep", kLevelsMax));
  if (!reply.is_object()) give_up(fmt::format("answered '{}'", line.substr(0, 200)));
  return reply;
}

void Peer::give_up(const std::string& what) {
  // A driver that closed its output is about to exit, and its status says more than our signal would.
  const auto end = child_->wait_until(Clock::now() + std::chrono::milliseconds(500));
  child_.reset();
  std::string text = fmt::format("{} {}", name_, what);
  if (end && !end->empty()) text += fmt::format(" ({})", *end);
  if (const std::string tail = stderr_.tail(); !tail.empty()) text += ": " + tail;
  throw Error(ErrorCode::kResource, text);
}

}  // namespace tzmark::bench
