// tzmark corpus; see corpus_command.h.
#include "commands/corpus_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <system_error>

#include "commands/common_options.h"
#include "model/text.h"
#include "program/local_name.h"
#include "runner/console.h"
#include "runner/errors.h"
#include "runner/file_content.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

int check(const Manifest& manifest) {
  std::size_t wrong = 0;
  for (const Case& item : manifest.cases) {
    try {
      read_case_file(manifest, item);
      read_shards(manifest, item);
      std::vector<Case> alone = {item};
      load_expected(manifest, alone);
      expected_of(alone.front());
    } catch (const EnvironmentError& error) {
      say("{}\n", error.what());
      ++wrong;
    }
  }
  say("{} cases, {} wrong\n", manifest.cases.size(), wrong);
  return wrong == 0 ? 0 : 1;
}

// All files of the cases, and their documentation.
std::set<fs::path> files_of(const Manifest& manifest) {
  std::set<fs::path> files = {"manifest.json"};
  for (const char* name : {"manifest.schema.json", "rules.json", "README.md"}) {
    if (fs::exists(manifest.directory / name)) files.insert(name);
  }
  for (const Case& item : manifest.cases) {
    files.insert(item.path);
    for (const ShardPath& shard : item.shards) files.insert(shard.path);
    if (item.expected) files.insert(*item.expected);
  }
  return files;
}

// The corpus may be a stranger's, and a link in it lead to any file of the user.
std::vector<std::byte> read_without_links(const fs::path& file) {
  std::error_code error;
  const fs::path found = fs::canonical(file, error);
  if (!error && found == file.lexically_normal()) return read_file(file);
  throw EnvironmentError(fmt::format("{}: {}", file.string(), error ? error.message() : "a link is not exported"));
}

void export_files(const Manifest& manifest, const fs::path& directory) {
  std::error_code error;
  if (fs::exists(directory, error) && !fs::is_empty(directory, error)) {
    throw UsageError(fmt::format("{}: already exists and is not empty", directory.string()));
  }
  for (const Case& item : manifest.cases) read_case_file(manifest, item);
  check_unchanged(manifest, manifest.cases);
  for (const fs::path& file : files_of(manifest)) {
    fs::create_directories((directory / file).parent_path(), error);
    if (error) throw EnvironmentError(fmt::format("{}: {}", (directory / file).string(), error.message()));
    write_file(directory / file, model::text_of(read_without_links(manifest.directory / file)));
  }
  say("{} cases, {} files\n", manifest.cases.size(), files_of(manifest).size());
}

}  // namespace

void add_corpus_commands(CLI::App& app, CorpusArguments& arguments) {
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* summary) {
    CLI::App& command = *app.add_subcommand(name, summary);
    add_corpus_options(command, arguments.corpus);
    command.callback([&arguments, name] { arguments.command = name; });
    return &command;
  };
  add_selection_options(*add("list", "print the cases: id, layout, verdict, features"), arguments.selection);
  add("check", "compare every file with its SHA-256 in the manifest");
  add("export", "copy all cases, their expected content and the manifest into a new directory")
      ->add_option("DIR", arguments.export_to)
      ->required()
      ->check(why_not_local);
}

int run_corpus(const CorpusArguments& arguments, const fs::path& prefix, const std::atomic<bool>&) {
  const Manifest manifest = load_corpus(arguments.corpus, prefix);
  if (arguments.command == "check") return check(manifest);
  if (arguments.command == "export") {
    export_files(manifest, arguments.export_to);
  } else {
    print_cases(select_cases(manifest, arguments.selection));
  }
  return 0;
}

void print_cases(const std::vector<Case>& cases) {
  for (const Case& item : cases) {
    say("{}\t{}\t{}\t{}\n", item.id, item.layout, name_of(item.verdict), fmt::join(item.features, ","));
  }
}

}  // namespace tzmark::conformance
