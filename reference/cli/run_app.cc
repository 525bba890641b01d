// Running the commands.
#include "cli/run_app.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>

#include "cli/commands.h"

namespace tzmark::cli {
namespace {

constexpr int kExitUsage = 2;
constexpr int kExitEnvironment = 3;

int report(const std::string& context, const Error& error) {
  fmt::print(stderr, "tzmark: {}{}{}\n", context, context.empty() ? "" : ": ", error.what());
  return static_cast<int>(error.error_class());
}

}  // namespace

int run_app(CLI::App& app, int argc, char** argv, const std::string& who) {
  const auto parse = [&] {
    try {
      app.parse(argc, argv);
      return 0;
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? 0 : kExitUsage;
    }
  };
  return run_guarded(parse, who);
}

int run_guarded(const std::function<int()>& action, const std::string& who) {
  try {
    return action();
  } catch (const FileError& error) {
    return report(who.empty() ? error.file_name : who + ": " + error.file_name, error.error);
  } catch (const Error& error) {
    return report(who, error);
  } catch (const std::bad_alloc&) {
    return report(who, Error(ErrorCode::kResource, "out of memory"));
  } catch (const std::exception& error) {
    fmt::print(stderr, "tzmark: {}error: {}\n", who.empty() ? "" : who + ": ", error.what());
    return kExitEnvironment;
  }
}

}  // namespace tzmark::cli
