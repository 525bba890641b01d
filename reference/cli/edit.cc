// tzmark edit: renames, retypes and drops tensors of a v5-segments file.
#include "tzmark/edit.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "cli/commands.h"
#include "cli/progress.h"
#include "program/arguments.h"

namespace tzmark::cli {
namespace {

struct EditCommand : InputOptions {
  std::vector<std::string> renames;  // OLD NEW, repeated
  std::vector<std::string> kinds;    // NAME KIND, repeated
  std::vector<std::string> drops;
  bool recover = false;
  bool restored = false;
  Durability durability = Durability::kIfPossible;

  std::vector<TensorEdit> edits() const {
    std::vector<TensorEdit> list;
    for (std::size_t i = 0; i + 1 < renames.size(); i += 2) {
      list.push_back({.tensor = parse_path(renames[i]), .new_path = parse_path(renames[i + 1])});
    }
    for (std::size_t i = 0; i + 1 < kinds.size(); i += 2) {
      list.push_back({.tensor = parse_path(kinds[i]), .new_kind = parse_kind(kinds[i + 1])});
    }
    for (const std::string& name : drops) list.push_back({.tensor = parse_path(name), .drop = true});
    return list;
  }

  static Kind parse_kind(const std::string& name) {
    for (const Kind kind : {Kind::kParameter, Kind::kBuffer, Kind::kStateDict}) {
      if (kind_name(kind) == name) return kind;
    }
    throw Error(ErrorCode::kUsage, fmt::format("no kind '{}'; use parameter, buffer or state_dict", name));
  }
};

void print_recovery(const std::string& file_name, Recovery recovery) {
  constexpr std::array kTexts = {"nothing to recover", "undid the interrupted change",
                                 "completed the interrupted growth; the content is unchanged"};
  print(fmt::format("{}: {}\n", printable(file_name), kTexts[static_cast<std::size_t>(recovery)]));
  for (const std::string& file : unfinished_files(file_name)) {
    fmt::print(stderr, "tzmark: {}: note: incomplete file of an interrupted append or edit; delete it\n",
               printable(file));
  }
}

}  // namespace

void add_edit(CLI::App& app) {
  auto options = std::make_shared<EditCommand>();
  CLI::App* command = app.add_subcommand("edit", "Rename, retype or drop tensors of a v5-segments file, in place");
  command->footer(
      "Rewrites index and headers; the data stays in place. Hashes cover name and kind, so the data of each renamed "
      "or\n"
      "retyped tensor is read once and verified; if it is encrypted, this takes the key. convert reclaims the room of\n"
      "dropped tensors. Makes all edits or none: after a crash, the next append or edit recovers from\n"
      "FILE.tzmark-intent.");
  command->add_option("FILE", options->file_name, "v5-segments file to change")->required();
  options->add_io_to(*command);
  options->add_keys_to(*command);
  const auto add = [&](const char* option, std::vector<std::string>& values, const char* summary, int words) {
    accept_empty(*command->add_option(option, values, summary)->type_size(words)->allow_extra_args(false));
  };
  add("--rename", options->renames,
      "OLD NEW: rename a tensor; a path is a JSON array. All edits use the names in the file", 2);
  add("--kind", options->kinds, "NAME KIND: set the kind to parameter, buffer or state_dict", 2);
  add("--drop", options->drops, "NAME: remove the tensor from the index", 1);
  command->add_flag("--recover", options->recover, "Only undo or complete an interrupted change");
  command
      ->add_flag("--restored", options->restored,
                 "Also recover a file that was copied or restored together with its journal, and so has another inode")
      ->needs("--recover");
  add_require_durable(*command, options->durability);
  command->callback([options] {
    with_file_name(options->file_name, [&] {
      const std::vector<TensorEdit> edits = options->edits();
      if (edits.empty() != options->recover) {
        throw Error(ErrorCode::kUsage, "give either edits or --recover");
      }
      if (options->recover) {
        return print_recovery(options->file_name, recover(options->file_name, {.restored = options->restored}));
      }
      ProgressLine progress("edit", options->progress);
      ReadOptions read = options->read_options();
      EditOptions edit;
      edit.key = std::move(read.key);
      edit.io_path = read.io_path;
      edit.durability = options->durability;
      edit.progress = progress.callback();
      const Growth growth = edit_tensors(options->file_name, edits, std::move(edit));
      progress.clear();
      tell_not_durable(options->file_name, growth.names_durable);
      tell_lost_owner(options->file_name, growth);
    });
  });
}

}  // namespace tzmark::cli
