// tzmark: one command with subcommands. What is not about a single file is done by sibling programs, as git does.
//
// Exit status: 0 fine, 1 the file fails, 2 wrong usage, 3 the environment failed, 4 not available on this machine.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <system_error>
#include <vector>

#include "cli/commands.h"
#include "tzmark/version.h"

namespace {

constexpr int kExitUsage = 2;
constexpr int kExitEnvironment = 3;
constexpr int kExitUnavailable = 4;

struct Sibling {
  const char* program;
  const char* command;
  const char* summary;
};

// The suite is a program of its own that shares no code with the codec: the judge and the judged.
constexpr std::array kSiblings = {
    Sibling{"tzmark-conform", "conform", "Run the conformance suite on an implementation"},
    Sibling{"tzmark-conform", "corpus", "List, check or export the cases of the suite"},
    Sibling{"tzmark-bench", "bench", "Measure I/O paths, the codec on top of them, and others beside it"},
    Sibling{"tzmark-bench", "compare", "Hold one result of bench against another; exit 1 on a regression"},
};

// Replaces this process by the sibling. Returns only if that fails.
int run_sibling(const Sibling& sibling, int argc, char** argv) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string program = self.parent_path() / sibling.program;
  std::vector<char*> arguments(argv + 1, argv + argc);
  arguments.push_back(nullptr);
  ::execv(program.c_str(), arguments.data());
  fmt::print(stderr, "tzmark: {}: not available: {}\n", program, std::generic_category().message(errno));
  return kExitUnavailable;
}

int report(const std::string& context, const tzmark::Error& error) {
  fmt::print(stderr, "tzmark: {}{}{}\n", context, context.empty() ? "" : ": ", error.what());
  return static_cast<int>(error.error_class());
}

int run(int argc, char** argv) {
  CLI::App app("Reads, checks and writes .tensors files of every data version.", "tzmark");
  app.set_version_flag("--version", tzmark::version_text());
  app.require_subcommand(1);
  tzmark::cli::add_inspect(app);
  tzmark::cli::add_dump(app);
  tzmark::cli::add_verify(app);
  tzmark::cli::add_convert(app);
  tzmark::cli::add_extract(app);
  tzmark::cli::add_append(app);
  tzmark::cli::add_edit(app);
  // Listed for --help only: they have been run before any option is looked at.
  for (const Sibling& sibling : kSiblings) app.add_subcommand(sibling.command, sibling.summary);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  } catch (const tzmark::cli::FileError& error) {
    return report(error.file_name, error.error);
  } catch (const tzmark::Error& error) {
    return report("", error);
  } catch (const std::bad_alloc&) {
    return report("", tzmark::Error(tzmark::ErrorCode::kResource, "out of memory"));
  } catch (const std::exception& error) {
    fmt::print(stderr, "tzmark: error: {}\n", error.what());
    return kExitEnvironment;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    for (const Sibling& sibling : kSiblings) {
      if (argv[1] == std::string_view(sibling.command)) return run_sibling(sibling, argc, argv);
    }
  }
  return run(argc, argv);
}
