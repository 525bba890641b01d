// Runs a benchmark program; see run_program.h.
#include "cli/run_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "program/arguments.h"
#include "program/standard_streams.h"
#include "tzmark/digest.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

constexpr int kExitEnvironment = 3;

int report(int status, const char* what) {
  tell(fmt::format("tzmark: {}", what));
  return status;
}

bool is_same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code error;
  // Outputs that do not exist yet have no inode.
  return fs::equivalent(a, b, error) || fs::weakly_canonical(fs::absolute(a)) == fs::weakly_canonical(fs::absolute(b));
}

}  // namespace

int run_program(CLI::App& app, const std::vector<std::string>& command, const std::function<int()>& action) {
  try {
    open_standard_streams();
    require_sha256_kernel();
    std::vector<const char*> arguments;
    for (const std::string& word : command) arguments.push_back(word.c_str());
    const Parsed parsed = parse(app, static_cast<int>(arguments.size()), arguments.data());
    if (!parsed.problem.empty()) throw Error(ErrorCode::kUsage, parsed.problem);
    print(parsed.help);
    return parsed.run ? action() : 0;
  } catch (const Error& error) {
    return report(static_cast<int>(error.error_class()), error.what());
  } catch (const std::bad_alloc&) {
    return report(kExitEnvironment, "error: out of memory");
  } catch (const std::exception& error) {
    return report(kExitEnvironment, error.what());
  }
}

RoundProgress::RoundProgress(bool forced) : is_shown_(forced || ::isatty(STDERR_FILENO) != 0) {}

RoundProgress::~RoundProgress() {
  if (is_shown_) print_to_stderr("\r\033[K");
}

std::function<void(const std::string&)> RoundProgress::callback() const {
  if (!is_shown_) return {};
  return [](const std::string& what) { print_to_stderr(fmt::format("\r\033[K{:.110}", what)); };
}

std::string json_text(const nlohmann::json& document) {
  return document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void refuse_to_replace(const std::string& output, const std::vector<std::string>& others) {
  for (const std::string& other : others) {
    if (other.empty() || !is_same_file(output, other)) continue;
    throw Error(ErrorCode::kUsage, fmt::format("the output {} would replace {}", output, other));
  }
}

ResultFile::ResultFile(std::string file_name)
    : file_name_(std::move(file_name)),
      file_(about_file(file_name_, [&] { return std::make_unique<AtomicFile>(file_name_); })) {}

void ResultFile::commit(const std::string& text) {
  about_file(file_name_, [&] {
    file_->file().write_at(0, std::as_bytes(std::span(text)));
    file_->commit();
  });
}

}  // namespace tzmark::bench
