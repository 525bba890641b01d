// An HTTP server of one file at a time, on the loopback interface, for readers of URLs. It misbehaves in exact ways, as
// no server that could be installed does, and is no server for anything else.
//
// Thread-safety: one object belongs to one thread, and starts one more, which serves all connections.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "runner/descriptor.h"
#include "runner/http_behaviour.h"

namespace tzmark::conformance {

struct HttpServerLimits {
  // A connection ends that makes no progress for so long, in either direction.
  std::chrono::milliseconds idle_max = std::chrono::seconds(30);
  // More wait until one ends.
  std::size_t connections_max = 128;
};

// What was asked about a file.
struct HttpCounts {
  std::uint64_t requests = 0;  // HEAD included
  std::uint64_t faults = 0;    // of these, those that met one
};

class HttpServer {
 public:
  // Throws EnvironmentError if there is no socket or no thread to be had.
  explicit HttpServer(const HttpServerLimits& limits = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Throws EnvironmentError if no connection can be made to it, as where the loopback interface is down.
  void check_reachable() const;

  // Serves this file, in place of the one before, and returns its URL. A name has the same URL each time, which cannot
  // be guessed. The content must outlive what is served. sha256: of the content, in hexadecimal digits.
  std::string serve(std::string_view name, std::span<const std::byte> content, std::string_view sha256,
                    const HttpBehaviour& behaviour);

  // Serves nothing from here on, and touches the content no more. Connections that were sending it end; others stay,
  // for a reader may use them again for the next file.
  HttpCounts withdraw();

  // How many are open.
  std::size_t connections() const;

  std::uint16_t port() const { return port_; }

 private:
  struct Connection;

  // The file, and what is known of the requests for it.
  struct Served {
    std::string target;
    HttpFile file;
    HttpBehaviour behaviour;
    HttpFaults faults;
    HttpCounts counts = {};
  };

  void run();
  void accept_all();
  // REQUIRES: there is a connection.
  std::list<Connection>::iterator idlest();
  std::chrono::steady_clock::time_point idle_since(const Connection& connection) const;
  void go_on(Connection& connection);
  void answer(Connection& connection, std::string_view head);
  void wake() const;

  const HttpServerLimits limits_;
  Descriptor listener_;
  Descriptor wakeup_;
  std::uint16_t port_ = 0;
  std::string origin_;  // "http://127.0.0.1:40000"
  std::string directory_;
  std::atomic<bool> stopping_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::optional<Served> served_;
  std::list<Connection> connections_;
  bool lacks_descriptors_ = false;

  std::thread thread_;
};

// A file while it is served: its content may go once this object has ended.
class HttpServing {
 public:
  // As HttpServer::serve. The server must outlive the object.
  HttpServing(HttpServer& server, std::string_view name, std::span<const std::byte> content, std::string_view sha256,
              const HttpBehaviour& behaviour)
      : server_(server), url_(server.serve(name, content, sha256, behaviour)) {}
  ~HttpServing() { server_.withdraw(); }
  HttpServing(const HttpServing&) = delete;
  HttpServing& operator=(const HttpServing&) = delete;

  const std::string& url() const { return url_; }
  HttpCounts end() { return server_.withdraw(); }

 private:
  HttpServer& server_;
  std::string url_;
};

}  // namespace tzmark::conformance
