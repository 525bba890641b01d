// Tests of the HTTP server: what it serves and to whom, how it fails, and that no client can stop it.
#include "runner/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "runner/sha256.h"

namespace tzmark::conformance {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

struct Address {
  std::uint16_t port;
  std::string target;
};

Address address_of(const std::string& url) {
  const std::string prefix = "http://127.0.0.1:";
  EXPECT_THAT(url, StartsWith(prefix));
  const std::size_t slash = url.find('/', prefix.size());
  return {static_cast<std::uint16_t>(std::stoul(url.substr(prefix.size(), slash - prefix.size()))), url.substr(slash)};
}

// A connection that waits for a few seconds at most.
class Client {
 public:
  explicit Client(std::uint16_t port, int receive_bytes = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience = {.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (receive_bytes > 0) ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }

  bool send(std::string_view text) {
    return ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }

  // What arrives up to this many bytes, or to the end.
  std::string receive(std::size_t most = 1 << 30) {
    std::string text;
    std::array<char, 65536> block;
    while (text.size() < most) {
      const ssize_t got = ::recv(socket_.get(), block.data(), std::min(block.size(), most - text.size()), 0);
      ++reads_;
      if (got <= 0) {
        end_error_ = got < 0 ? errno : 0;
        break;
      }
      text.append(block.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

  // One answer on a connection that is kept.
  std::string answer() {
    std::string head;
    while (!head.ends_with("\r\n\r\n")) {
      const std::string next = receive(1);
      if (next.empty()) return head;
      head += next;
    }
    const std::string name = "Content-Length: ";
    return head + receive(std::stoul(head.substr(head.find(name) + name.size())));
  }

  int end_error() const { return end_error_; }
  int reads() const { return reads_; }

 private:
  Descriptor socket_;
  int end_error_ = 0;
  int reads_ = 0;
};

std::string get_request(const std::string& target, const std::string& fields = "Connection: close\r\n") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: a\r\n{}\r\n", target, fields);
}

std::string body_of(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

class HttpServerTest : public testing::Test {
 protected:
  void serve(const HttpBehaviour& behaviour = {}) {
    address_ = address_of(server_.serve("f.tensors", std::as_bytes(std::span(content_)), sha256_, behaviour));
  }

  std::string ask(const std::string& request) {
    Client client(address_.port);
    EXPECT_TRUE(client.send(request));
    const std::string answer = client.receive();
    end_error_ = client.end_error();
    return answer;
  }

  std::string ask_for_file(const std::string& fields = "") {
    return ask(get_request(address_.target, fields + "Connection: close\r\n"));
  }

  HttpServer server_{{.idle_max = std::chrono::seconds(20), .connections_max = 40}};
  std::string content_ = [] {
    std::string text(300'001, '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 3);
    return text;
  }();
  std::string sha256_ = sha256_of(std::as_bytes(std::span(content_)));
  Address address_;
  int end_error_ = 0;
};

TEST_F(HttpServerTest, ServesTheFileAndItsParts) {
  EXPECT_NO_THROW(server_.check_reachable());
  serve();
  EXPECT_EQ(body_of(ask_for_file()), content_);
  const std::string part = ask_for_file("Range: bytes=7-299\r\n");
  EXPECT_THAT(part, StartsWith("HTTP/1.1 206 Partial Content\r\n"));
  EXPECT_THAT(part, HasSubstr(fmt::format("ETag: \"{}\"\r\n", sha256_.substr(0, 32))));
  EXPECT_EQ(body_of(part), content_.substr(7, 293));
  EXPECT_THAT(ask_for_file("Range: bytes=300001-\r\n"), StartsWith("HTTP/1.1 416 "));
  const std::string head = ask(fmt::format("HEAD {} HTTP/1.1\r\nConnection: close\r\n\r\n", address_.target));
  EXPECT_THAT(head, HasSubstr("Content-Length: 300001\r\n"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
  EXPECT_EQ(server_.withdraw().requests, 4u);
}

TEST_F(HttpServerTest, ServesNothingElse) {
  serve();
  const std::string directory = address_.target.substr(0, address_.target.rfind('/') + 1);
  EXPECT_EQ(directory.size(), 34u);
  for (const std::string& target : {std::string("/"), directory, directory + "g.tensors", std::string("/f.tensors"),
                                    address_.target + "/", directory + "../f.tensors"}) {
    EXPECT_THAT(ask(get_request(target)), StartsWith("HTTP/1.1 404 ")) << target;
  }
  EXPECT_EQ(server_.withdraw().requests, 0u);
  EXPECT_THAT(ask_for_file(), StartsWith("HTTP/1.1 404 "));
  // Another server has another path.
  HttpServer other;
  EXPECT_NE(address_of(other.serve("f.tensors", {}, sha256_, {})).target, address_.target);
}

TEST_F(HttpServerTest, KeepsConnectionsAlsoForTheNextFile) {
  serve();
  Client client(address_.port);
  // Two requests at once.
  const std::string request = get_request(address_.target, "Range: bytes=0-9\r\n");
  ASSERT_TRUE(client.send(request + request));
  EXPECT_EQ(body_of(client.answer()), content_.substr(0, 10));
  EXPECT_EQ(body_of(client.answer()), content_.substr(0, 10));
  const std::string target = address_.target;
  content_[0] = static_cast<char>(content_[0] + 1);
  sha256_ = std::string(64, '0');
  serve();
  EXPECT_EQ(address_.target, target);
  ASSERT_TRUE(client.send(request));
  const std::string next = client.answer();
  EXPECT_THAT(next, HasSubstr(fmt::format("ETag: \"{}\"\r\n", std::string(32, '0'))));
  EXPECT_EQ(body_of(next), content_.substr(0, 10));
}

TEST_F(HttpServerTest, RefusesWhatIsNoRequest) {
  serve();
  for (const auto& [request, status] :
       std::vector<std::pair<std::string, int>>{{"\x16\x03\x01", 400},
                                                {"GET / HTTP/1.1\n\n", 400},
                                                {"GET / HTTP/1.1\r\nno field\r\n\r\n", 400},
                                                {"GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 400},
                                                {"POST / HTTP/1.1\r\n\r\n", 405},
                                                {"GET / HTTP/1.1\r\nA: " + std::string(20'000, 'a'), 431}}) {
    EXPECT_THAT(ask(request), StartsWith(fmt::format("HTTP/1.1 {} ", status)));
    EXPECT_EQ(end_error_, 0) << status;
  }
}

TEST_F(HttpServerTest, CutsBodiesUntilTheyAreRepeated) {
  serve({.fault = HttpFault::kCut});
  const std::string cut = ask_for_file("Range: bytes=0-999\r\n");
  EXPECT_THAT(cut, HasSubstr("Content-Length: 1000\r\n"));
  EXPECT_EQ(body_of(cut), content_.substr(0, 500));
  EXPECT_EQ(end_error_, 0);
  EXPECT_EQ(body_of(ask_for_file("Range: bytes=500-999\r\n")), content_.substr(500, 500));
  EXPECT_EQ(body_of(ask_for_file("Range: bytes=0-999\r\n")), content_.substr(0, 1000));
  const HttpCounts counts = server_.withdraw();
  EXPECT_EQ(counts.requests, 3u);
  EXPECT_EQ(counts.faults, 1u);
}

TEST_F(HttpServerTest, FailsUntilARequestIsRepeated) {
  serve({.fault = HttpFault::kUnavailable});
  EXPECT_THAT(ask_for_file(), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After: 0\r\n")));
  EXPECT_EQ(body_of(ask_for_file()), content_);
  serve({.has_ranges = false, .fault = HttpFault::kTooManyRequests, .faults_per_range = 2});
  for (int i = 0; i < 2; ++i) EXPECT_THAT(ask_for_file("Range: bytes=9-\r\n"), StartsWith("HTTP/1.1 429 "));
  EXPECT_EQ(body_of(ask_for_file("Range: bytes=9-\r\n")), content_);
  serve({.fault = HttpFault::kReset});
  EXPECT_EQ(ask_for_file(), "");
  EXPECT_EQ(end_error_, ECONNRESET);
  EXPECT_EQ(body_of(ask_for_file()), content_);
}

TEST_F(HttpServerTest, ResetsAndCutsAlsoWhereDescriptorsHaveCopies) {
  serve({.fault = HttpFault::kReset});
  Client client(address_.port);
  while (server_.connections() == 0) std::this_thread::yield();
  // As a fork would make them.
  std::vector<Descriptor> copies;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    copies.emplace_back(::fcntl(std::stoi(entry.path().filename()), F_DUPFD_CLOEXEC, 0));
  }
  ASSERT_TRUE(client.send(get_request(address_.target)));
  EXPECT_EQ(client.receive(), "");
  EXPECT_EQ(client.end_error(), ECONNRESET);
}

TEST_F(HttpServerTest, SendsSmallPieces) {
  content_.resize(2000);
  int most_reads = 0;
  // Pieces arrive together where this thread waits for a core.
  for (int i = 0; i < 200 && most_reads < 6; ++i) {
    serve({.is_in_pieces = true, .seed = 3});
    Client client(address_.port);
    ASSERT_TRUE(client.send(get_request(address_.target)));
    EXPECT_EQ(body_of(client.receive()), content_);
    most_reads = std::max(most_reads, client.reads());
  }
  EXPECT_GE(most_reads, 6);
}

TEST_F(HttpServerTest, ServesManyConnectionsAtOnce) {
  content_.resize(20'000);
  serve();
  std::vector<std::unique_ptr<Client>> clients;
  // More than it takes at a time: others follow where one ends.
  for (int i = 0; i < 100; ++i) {
    clients.push_back(std::make_unique<Client>(address_.port));
    ASSERT_TRUE(clients.back()->send(get_request(address_.target)));
  }
  for (std::unique_ptr<Client>& client : clients) {
    EXPECT_EQ(body_of(client->receive()), content_);
    client.reset();
  }
  EXPECT_EQ(server_.withdraw().requests, 100u);
}

TEST_F(HttpServerTest, IsNotHeldUpByConnectionsThatOthersHold) {
  content_.resize(20'000);
  serve();
  std::vector<std::unique_ptr<Client>> others;
  for (int i = 0; i < 60; ++i) others.push_back(std::make_unique<Client>(address_.port));
  const auto begin = Clock::now();
  EXPECT_EQ(body_of(ask_for_file()), content_);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(HttpServerTest, EndsConnectionsWithoutProgress) {
  content_.resize(8u << 20);
  HttpServer server({.idle_max = std::chrono::milliseconds(300)});
  const Address address = address_of(server.serve("f", std::as_bytes(std::span(content_)), sha256_, {}));
  Client silent(address.port);
  Client half(address.port);
  ASSERT_TRUE(half.send("GET / HT"));
  Client slow(address.port, 4096);
  ASSERT_TRUE(slow.send(get_request(address.target)));
  EXPECT_EQ(silent.receive(), "");
  EXPECT_EQ(half.receive(), "");
  const auto until = Clock::now() + std::chrono::seconds(10);
  while (server.connections() > 0 && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(server.connections(), 0u);
  EXPECT_LT(slow.receive().size(), content_.size());
}

TEST_F(HttpServerTest, TouchesNothingThatIsWithdrawn) {
  content_.resize(32u << 20);
  serve();
  Client client(address_.port, 4096);
  ASSERT_TRUE(client.send(get_request(address_.target)));
  EXPECT_EQ(client.receive(10), "HTTP/1.1 2");
  const auto began = Clock::now();
  EXPECT_EQ(server_.withdraw().requests, 1u);
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(2));
  // The address sanitizer sees a late look.
  std::string().swap(content_);
  EXPECT_LT(client.receive().size(), 32u << 20);
}

TEST_F(HttpServerTest, ListensOnTheLoopbackInterfaceAndLeavesNoDescriptors) {
  const auto descriptors = [] {
    std::map<int, std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code none;
      const std::string name = std::filesystem::read_symlink(entry.path(), none);
      // Not the descriptor of this loop.
      if (name.find("/fd") == name.npos) names[std::stoi(entry.path().filename())] = name;
    }
    return names;
  };
  const auto before = descriptors();
  {
    HttpServer server;
    const Address address = address_of(server.serve("f", {}, sha256_, {}));
    const Client client(address.port);
    while (server.connections() == 0) std::this_thread::yield();
    int sockets = 0;
    for (const auto& [fd, name] : descriptors()) {
      if (before.contains(fd) || !name.starts_with("socket:")) continue;
      ++sockets;
      EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
      sockaddr_in bound{};
      socklen_t bytes = sizeof bound;
      ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &bytes), 0);
      EXPECT_EQ(bound.sin_family, AF_INET);
      EXPECT_EQ(ntohl(bound.sin_addr.s_addr), INADDR_LOOPBACK);
    }
    EXPECT_EQ(sockets, 3);
  }
  EXPECT_EQ(descriptors().size(), before.size());
}

}  // namespace
}  // namespace tzmark::conformance
