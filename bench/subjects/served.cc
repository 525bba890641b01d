// Opens a URL anew in each run; see served.h.
#include "subjects/served.h"

#include <fmt/format.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "harness/errno_error.h"
#include "harness/free_memory.h"
#include "harness/interruption.h"
#include "harness/pages.h"
#include "harness/process.h"
#include "subjects/block_mover.h"
#include "tzmark/device_memory.h"
#include "tzmark/error.h"
#include "tzmark/first_touch.h"
#include "tzmark/profile.h"
#include "tzmark/reader.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kRangesMax = 1 << 20;

std::uint64_t range_count(std::uint64_t bytes, std::uint64_t block_bytes) {
  return (bytes + block_bytes - 1) / block_bytes;
}

// The last part of the path, without what may be secret.
std::string name_of_url(const std::string& url) {
  std::string shown = display_name(url);
  shown.resize(std::min(shown.size(), shown.find('?')));
  const std::string name = shown.substr(shown.rfind('/') + 1);
  return name.empty() ? shown : name;
}

// What is common to all of them.
class ServedSubject : public Subject {
 protected:
  ServedSubject(SharedFile file, const IoSettings& moving) : file_(std::move(file)), moving_(moving) {
    RunDescription& d = description_;
    d.operation = FileOperation::kRead;
    d.cache = Cache::kServer;
    d.workload = file_->workload().name;
    d.workload_label = file_->workload().name;
    d.threads = thread_count(moving.threads);
    d.is_default_block = moving.block_bytes == 0;
    d.bytes = file_->bytes();
    d.verified_first = true;
  }

  void describe(const File& file) {
    RunDescription& d = description_;
    d.io_requested = d.io_actual = file.io_path();
    d.queue_depth = moving_.queue_depth = queue_depth(file, moving_);
    d.block_bytes = moving_.block_bytes = block_bytes(file, moving_);
    if (range_count(d.bytes, moving_.block_bytes) > kRangesMax) {
      throw Error(ErrorCode::kUsage, fmt::format("more than {} ranges; give a larger --block", kRangesMax));
    }
  }

  const SharedFile file_;
  IoSettings moving_;
};

class ServedLoad final : public ServedSubject {
 public:
  ServedLoad(SharedFile file, const IoSettings& moving, Verification verification)
      : ServedSubject(std::move(file), moving), verification_(verification) {
    RunDescription& d = description_;
    d.subject = "codec";
    d.verification = verification == Verification::kNone    ? "none"
                     : verification == Verification::kCrc32 ? "crc32"
                                                            : "both";
    d.target = Target::kHugePages;
    d.pages = Pages::kHuge;
    d.bytes = file_->workload().data_bytes();
    d.tensors = file_->workload().tensors.size();
    d.largest_tensor_bytes = d.tensors == 0 ? 0 : file_->workload().largest_tensor_bytes();
    d.layout = std::string(layout_name(file_->layout()));
    describe(*file_->open());
  }

  void verify() override {
    if (!file_->why_not_read().empty()) throw Error(ErrorCode::kUnavailable, file_->why_not_read());
    if (file_->file_bytes() > file_->bytes()) {
      throw Error(ErrorCode::kUnavailable, "a load reads all of the file, which is larger than --scale");
    }
    const Reader reader = Reader::open(file_->open(), file_->url(), options());
    try {
      static_cast<void>(reader.load(Verification::kAll));
      if (verification_ == Verification::kCrc32) static_cast<void>(reader.load(verification_));
    } catch (const Error& error) {
      // Such a file has nothing to be verified by.
      if (error.code() != ErrorCode::kHashNone) throw;
      if (verification_ != Verification::kNone) throw Error(ErrorCode::kUnavailable, error.what());
      description_.verified_first = false;
    }
  }

  Sample run() override {
    Sample sample;
    empty_heap();
    touch_free_memory(description_.bytes);
    std::optional<LoadedTensors> loaded;  // not freed before the clock stops
    const RunTimer watch("");
    std::unique_ptr<File> file = file_->open();
    const File* const opened = file.get();
    const Reader reader = Reader::open(std::move(file), file_->url(), options());
    loaded.emplace(reader.load(verification_, HostMemory::Pages::kHuge));
    watch.stop(sample);
    sample.requests = opened->request_counts();
    return sample;
  }

 private:
  ReadOptions options() const {
    ReadOptions options;
    options.threads = moving_.threads;
    options.queue_depth = moving_.queue_depth;
    if (!description_.is_default_block) apply(ProfileSettings{.block_bytes = moving_.block_bytes}, options);
    return options;
  }

  const Verification verification_;
};

class ServedRaw final : public ServedSubject {
 public:
  ServedRaw(SharedFile file, const IoSettings& moving, Target target) : ServedSubject(std::move(file), moving) {
    RunDescription& d = description_;
    d.subject = "raw";
    d.target = target;
    d.pages = Pages::kHuge;
    describe(*file_->open());
  }

  void verify() override {
    HostMemory memory(description_.bytes);
    LatencyHistogram ignored;
    static_cast<void>(read_into(&memory, {ignored, ignored}));
    file_->require_same(memory.bytes().first(description_.bytes));
    if (is_sink()) static_cast<void>(read_into(nullptr, {ignored, ignored}));
  }

  Sample run() override {
    Sample sample;
    touch_free_memory(is_sink() ? slots_.bytes().size() : description_.bytes);
    HostMemory memory;
    const RunTimer watch("");
    if (!is_sink()) memory = new_memory(description_.bytes, Pages::kHuge);
    sample.requests = read_into(is_sink() ? nullptr : &memory, {submission_, latency_});
    watch.stop(sample);
    see_pages(huge_share(is_sink() ? slots_.bytes() : memory.bytes()));
    return sample;
  }

 private:
  bool is_sink() const { return description_.target == Target::kSink; }

  // Without memory, into slots that are reused.
  std::optional<RequestCounts> read_into(HostMemory* memory, Latencies latencies) {
    const auto file = file_->open();
    const std::uint64_t block = moving_.block_bytes;
    std::byte* slots = nullptr;
    FirstTouch first_touch(memory != nullptr ? memory->bytes() : std::span<std::byte>());
    BlockMover mover(*file, Transfer::Kind::kRead, range_count(description_.bytes, block), moving_,
                     [&](std::uint64_t number, std::size_t slot) -> Block {
                       const std::uint64_t offset = number * block;
                       std::byte* const at = memory != nullptr ? memory->bytes().data() + offset : slots + slot * block;
                       return {offset, {at, static_cast<std::size_t>(std::min(block, description_.bytes - offset))}};
                     });
    if (memory == nullptr) {
      const std::size_t bytes = mover.slot_count() * block;
      if (slots_.bytes().size() < bytes) {
        slots_ = new_memory(bytes, Pages::kHuge);
        randombytes_buf(slots_.bytes().data(), bytes);
      }
      slots = slots_.bytes().data();
    }
    mover.before_each([&](const Transfer& transfer) {
      first_touch.touch({transfer.memory.data, transfer.memory.size});
    });
    mover.run(latencies);
    return file->request_counts();
  }

  HostMemory slots_;
};

// A program that gets its configuration from a descriptor and ended well.
struct CurlRun {
  std::uint64_t elapsed_ns, cpu_ns;
  std::string output;
};

CurlRun run_curl(const std::string& configuration) {
  constexpr std::chrono::minutes kTimeout{10};
  const OutputFile input;
  const OutputFile output;
  const OutputFile errors;
  for (std::size_t at = 0; at < configuration.size();) {
    const ssize_t count = ::write(input.descriptor(), configuration.data() + at, configuration.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw errno_error(ErrorCode::kWriteFailed, "the configuration of curl");
    at += static_cast<std::size_t>(count);
  }
  if (::lseek(input.descriptor(), 0, SEEK_SET) != 0) throw errno_error(ErrorCode::kResource, "lseek");
  const std::uint64_t cpu_ns = cpu_of_children_ns();
  const auto begin = Clock::now();
  Child child({"curl", "--disable", "--config", "-"}, input.descriptor(), output.descriptor(), errors.descriptor());
  std::optional<std::string> end;
  while (!end && Clock::now() < begin + kTimeout && Interruption::number() == 0) {
    end = child.wait_until(Clock::now() + std::chrono::milliseconds(200));
  }
  const auto elapsed = Clock::now() - begin;
  if (!end && Interruption::number() != 0) throw Error(ErrorCode::kUnavailable, "interrupted");
  if (!end) throw Error(ErrorCode::kReadFailed, "curl did not end within 10 minutes");
  if (!end->empty()) throw Error(ErrorCode::kReadFailed, fmt::format("curl: {}: {}", *end, errors.tail()));
  return {static_cast<std::uint64_t>(elapsed / std::chrono::nanoseconds(1)), cpu_of_children_ns() - cpu_ns,
          output.text()};
}

std::string curl_version() {
  const CommandResult result = run_command({"curl", "--disable", "--version"}, std::chrono::seconds(10));
  std::istringstream words(result.output);
  std::string name;
  std::string version;
  if (!result.end.empty() || !(words >> name >> version)) {
    throw Error(ErrorCode::kUnavailable, "curl does not tell its version");
  }
  return version;
}

bool is_s3(const std::string& url) { return url.starts_with("s3:") || url.starts_with("S3:"); }

class ServedCurl final : public ServedSubject {
 public:
  ServedCurl(SharedFile file, const IoSettings& moving) : ServedSubject(std::move(file), moving) {
    RunDescription& d = description_;
    d.subject = "peer";
    d.detail = "curl";
    d.peer = {{"name", "curl"}, {"version", ""}, {"detail", "curl --parallel, less the time of its start"}};
    d.target = Target::kSink;
    describe(*file_->open());
    d.threads.reset();
    d.io_requested = d.io_actual = "";
    // The bytes go nowhere; their number and the status of each range are checked in every run.
    d.verified_first = false;
  }

  void verify() override {
    constexpr unsigned kParallelMax = 300;  // more are an error of curl before 8.17
    const std::string& url = file_->url();
    if (is_s3(url)) {
      throw Error(ErrorCode::kUnavailable, "curl is compared for http and https, without signatures");
    }
    if (moving_.queue_depth > kParallelMax) {
      throw Error(ErrorCode::kUnavailable, fmt::format("curl makes at most {} transfers at a time", kParallelMax));
    }
    description_.peer["version"] = curl_version();
    configuration_ = curl_configuration(url, description_.bytes, moving_.block_bytes, moving_.queue_depth);
    static_cast<void>(run());
  }

  Sample run() override {
    const CurlRun start = run_curl("url = \"file:///dev/null\"\noutput = \"/dev/null\"\nsilent\n");
    const CurlRun done = run_curl(configuration_);
    check_curl_output(done.output, description_.bytes, moving_.block_bytes);
    if (done.elapsed_ns < 2 * start.elapsed_ns) {
      throw Error(ErrorCode::kUnavailable, "too little data for curl, whose start takes as long");
    }
    Sample sample;
    sample.elapsed_ns = done.elapsed_ns - start.elapsed_ns;
    sample.cpu_ns = done.cpu_ns > start.cpu_ns ? done.cpu_ns - start.cpu_ns : 0;
    return sample;
  }

 private:
  std::string configuration_;
};

class ServedPeer final : public ServedSubject {
 public:
  ServedPeer(SharedFile file, std::shared_ptr<RunningPeer> peer, bool verify)
      : ServedSubject(std::move(file), {}), peer_(std::move(peer)), verify_(verify) {
    const nlohmann::json& hello = peer_->process().hello();
    describe_peer(hello.at("peer").get<std::string>());
    description_.peer = {{"name", hello.at("peer")}, {"version", hello.at("version")}, {"detail", hello.at("detail")}};
    description_.verification = verify ? "both" : "none";
  }
  // Not installed, or it does not work.
  ServedPeer(SharedFile file, std::string_view name, std::string why)
      : ServedSubject(std::move(file), {}), verify_(false), why_(std::move(why)) {
    describe_peer(std::string(name));
    description_.peer = {{"name", name}, {"version", "unknown"}, {"detail", ""}};
  }

  void verify() override {
    if (!why_.empty()) throw Error(ErrorCode::kUnavailable, why_);
    if (!file_->why_not_read().empty()) throw Error(ErrorCode::kUnavailable, file_->why_not_read());
    if (is_s3(file_->url())) throw Error(ErrorCode::kUnavailable, "other programs are compared for http and https");
    static_cast<void>(run());
    description_.verified_first = bytes_read_ == description_.bytes;
    if (description_.verified_first) return;
    throw Error(ErrorCode::kFileChanged,
                fmt::format("the peer read {} bytes instead of {}", bytes_read_, description_.bytes));
  }

  Sample run() override {
    touch_free_memory(description_.bytes);
    const nlohmann::json answer =
        peer_->process().request({{"op", "read"}, {"file", file_->url()}, {"verify", verify_}});
    Sample sample;
    sample.elapsed_ns = answer.at("elapsed_ns");
    sample.cpu_ns = answer.at("cpu_ns").get<std::uint64_t>();
    sample.user_elsewhere_ns = answer.at("user_ns").get<std::uint64_t>();
    bytes_read_ = answer.value("bytes", std::uint64_t{0});
    return sample;
  }

 private:
  void describe_peer(const std::string& name) {
    RunDescription& d = description_;
    d.subject = "peer";
    d.detail = name;
    d.threads.reset();
    d.target = Target::kHugePages;
    d.bytes = file_->workload().data_bytes();
    d.tensors = file_->workload().tensors.size();
    d.layout = std::string(layout_name(file_->layout()));
  }

  const std::shared_ptr<RunningPeer> peer_;
  const bool verify_;
  const std::string why_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace

ServedFile::ServedFile(std::string url, std::uint64_t bytes_max) : url_(std::move(url)) {
  const auto file = open_file(url_, OpenMode::kRead);
  const auto counts = file->request_counts();
  if (counts && counts->is_copied) {
    throw Error(ErrorCode::kUnavailable, "the server cannot send parts of a file: only a copy of it could be measured");
  }
  file_bytes_ = file->size();
  bytes_ = std::min(file_bytes_, bytes_max);
  if (bytes_ == 0) throw Error(ErrorCode::kUnavailable, "the file is empty, so that there is nothing to measure");
  workload_.name = name_of_url(url_);
  workload_.summary = display_name(url_);
  read_index();
}

void ServedFile::read_index() {
  try {
    const Reader reader = Reader::open(url_);
    layout_ = reader.layout();
    if (reader.header().encrypted) {
      why_not_read_ = "it is encrypted, and loads without a key are not possible";
      return;
    }
    for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
      const TensorInfo tensor = reader.tensors()[i];
      workload_.tensors.push_back({.name = std::string(tensor.name), .dtype = "uint8", .shape = {tensor.data_length}});
    }
  } catch (const Error& error) {
    workload_.tensors.clear();
    why_not_read_ = fmt::format("the codec cannot read it: {}", error.what());
  }
}

std::unique_ptr<File> ServedFile::open() const {
  auto file = open_file(url_, OpenMode::kRead);
  if (file->size() != file_bytes_) {
    throw Error(ErrorCode::kFileChanged,
                fmt::format("{} had {} bytes and has {} now", display_name(url_), file_bytes_, file->size()));
  }
  return file;
}

void ServedFile::require_same(std::span<const std::byte> bytes) {
  const auto as_unsigned = [](const std::byte* data) { return reinterpret_cast<const unsigned char*>(data); };
  if (!digest_) {
    const auto file = open();
    std::vector<std::byte> piece(std::min<std::uint64_t>(bytes_, 8 << 20));
    crypto_hash_sha256_state state;
    crypto_hash_sha256_init(&state);
    for (std::uint64_t offset = 0; offset < bytes_; offset += piece.size()) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), bytes_ - offset));
      file->read_at(offset, {piece.data(), size});
      crypto_hash_sha256_update(&state, as_unsigned(piece.data()), size);
    }
    crypto_hash_sha256_final(&state, digest_.emplace().data());
  }
  Digest found;
  crypto_hash_sha256(found.data(), as_unsigned(bytes.data()), bytes.size());
  if (found != *digest_) {
    throw Error(ErrorCode::kFileChanged, "ranges that arrived in parallel differ from the file that is read in order");
  }
}

std::string curl_configuration(const std::string& url, std::uint64_t bytes, std::uint64_t block_bytes, unsigned depth) {
  std::string quoted;
  for (const char c : url) {
    if (c == '"' || c == '\\') quoted += '\\';
    // Curl encodes no spaces, and a line break would begin another option.
    if (static_cast<unsigned char>(c) <= ' ') {
      quoted += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  std::string text = fmt::format("parallel\nparallel-immediate\nparallel-max = {}\n", std::max(1U, depth));
  for (std::uint64_t offset = 0; offset < bytes; offset += block_bytes) {
    if (offset > 0) text += "next\n";
    text += fmt::format(
        "silent\nshow-error\nfail\nspeed-limit = 1\nspeed-time = 30\ngloboff\nurl = \"{}\"\nrange = \"{}-{}\"\noutput "
        "= \"/dev/null\"\n"
        "write-out = \"%{{http_code}} %{{size_download}}\\n\"\n",
        quoted, offset, std::min(offset + block_bytes, bytes) - 1);
  }
  return text;
}

void check_curl_output(const std::string& output, std::uint64_t bytes, std::uint64_t block_bytes) {
  std::istringstream lines(output);
  std::uint64_t ranges = 0;
  std::uint64_t sum = 0;
  int status = 0;
  std::uint64_t size = 0;
  while (lines >> status >> size) {
    // curl would follow a redirect for each range, where tzmark remembers the first one.
    if (status >= 300 && status < 400) throw Error(ErrorCode::kUnavailable, "the server redirects curl at each range");
    if (status != 206) throw Error(ErrorCode::kReadFailed, fmt::format("curl got HTTP {} for a range", status));
    ++ranges;
    sum += size;
  }
  if (ranges != range_count(bytes, block_bytes) || sum != bytes) {
    throw Error(ErrorCode::kReadFailed, fmt::format("curl got {} bytes in {} ranges, where {} in {} were asked for",
                                                    sum, ranges, bytes, range_count(bytes, block_bytes)));
  }
}

std::unique_ptr<Subject> served_load(SharedFile file, const IoSettings& moving, Verification verification) {
  return std::make_unique<ServedLoad>(std::move(file), moving, verification);
}
std::unique_ptr<Subject> served_raw(SharedFile file, const IoSettings& moving, Target target) {
  return std::make_unique<ServedRaw>(std::move(file), moving, target);
}
std::unique_ptr<Subject> served_curl(SharedFile file, const IoSettings& moving) {
  return std::make_unique<ServedCurl>(std::move(file), moving);
}

std::unique_ptr<Subject> served_peer(SharedFile file, std::shared_ptr<RunningPeer> peer, bool verify) {
  return std::make_unique<ServedPeer>(std::move(file), std::move(peer), verify);
}
std::unique_ptr<Subject> missing_served_peer(SharedFile file, std::string_view name, std::string why) {
  return std::make_unique<ServedPeer>(std::move(file), name, std::move(why));
}

}  // namespace tzmark::bench
