// Running commands, and reporting their errors.
#include "cli/run_app.h"

#include <fmt/format.h>

#include <exception>
#include <new>

#include "cli/commands.h"
#include "program/arguments.h"
#include "program/standard_streams.h"
#include "tzmark/digest.h"
#include "tzmark/io.h"

namespace tzmark::cli {
namespace {

constexpr int kExitEnvironment = 3;

int report(const std::string& context, const Error& error) {
  tell(fmt::format("tzmark: {}{}{}", context, context.empty() ? "" : ": ", error.what()));
  return static_cast<int>(error.error_class());
}

}  // namespace

int run_app(CLI::App& app, int argc, char** argv, const std::string& who) {
  const auto run = [&] {
    require_sha256_kernel();
    const Parsed parsed = parse(app, argc, argv);
    if (!parsed.problem.empty()) throw Error(ErrorCode::kUsage, parsed.problem);
    tzmark::print(parsed.help);
    return 0;
  };
  return run_guarded(run, who);
}

int report_current_exception(const std::string& who) {
  try {
    throw;
  } catch (const Failed& failed) {
    return failed.status;
  } catch (const FileError& error) {
    const bool both = !who.empty() && !error.file_name.empty();
    return report(who + (both ? ": " : "") + display_name(error.file_name), error.error);
  } catch (const Error& error) {
    return report(who, error);
  } catch (const std::bad_alloc&) {
    return report(who, Error(ErrorCode::kResource, "out of memory"));
  } catch (const std::exception& error) {
    tell(fmt::format("tzmark: {}error: {}", who.empty() ? "" : who + ": ", error.what()));
    return kExitEnvironment;
  }
}

int run_guarded(const std::function<int()>& action, const std::string& who) {
  try {
    open_standard_streams();
    return action();
  } catch (...) {
    return report_current_exception(who);
  }
}

}  // namespace tzmark::cli
