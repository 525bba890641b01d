// tzmark edit: other names and kinds, and fewer tensors, in a v5-segments file.
#include "tzmark/edit.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "cli/commands.h"
#include "cli/progress.h"
#include "program/arguments.h"

namespace tzmark::cli {
namespace {

struct EditCommand : InputOptions {
  std::vector<std::string> renames;  // OLD NEW, over and over
  std::vector<std::string> kinds;    // NAME KIND, over and over
  std::vector<std::string> drops;
  bool recover = false;
  bool restored = false;

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
    throw Error(ErrorCode::kUsage, fmt::format("there is no kind '{}'; parameter, buffer and state_dict are", name));
  }
};

void print_recovery(const std::string& file_name, Recovery recovery) {
  constexpr std::array kTexts = {"nothing to recover", "the interrupted change is undone",
                                 "the room that was being made is there; the content is what it was"};
  print(fmt::format("{}: {}\n", printable(file_name), kTexts[static_cast<std::size_t>(recovery)]));
  for (const std::string& copy : unfinished_copies(file_name)) {
    fmt::print(stderr, "tzmark: {}: note: this is a copy that a killed append or edit was making; delete it\n",
               printable(copy));
  }
}

}  // namespace

void add_edit(CLI::App& app) {
  auto options = std::make_shared<EditCommand>();
  CLI::App* command = app.add_subcommand("edit", "Rename, retype or drop tensors of a v5-segments file, in place");
  command->footer(
      "Index and headers are written anew, and the data stays where it is. Hashes cover name and kind: a tensor that\n"
      "gets another name or kind has its data read once, which verifies it, and decrypted, which takes the key. What\n"
      "drops leave unused in the file is gone after a convert. All edits are made, or none: a crash leaves\n"
      "FILE.tzmark-intent, which the next append or edit recovers from.");
  command->add_option("FILE", options->file_name, "The v5-segments file to change")->required();
  options->add_io_to(*command);
  options->add_keys_to(*command);
  const auto add = [&](const char* option, std::vector<std::string>& values, const char* summary, int words) {
    accept_empty(*command->add_option(option, values, summary)->type_size(words)->allow_extra_args(false));
  };
  add("--rename", options->renames,
      "OLD NEW: another name; a path is a JSON array. Each edit names tensors as they are in the file", 2);
  add("--kind", options->kinds, "NAME KIND: parameter, buffer or state_dict", 2);
  add("--drop", options->drops, "NAME: not listed any more", 1);
  command->add_flag("--recover", options->recover, "Undo or finish an interrupted change, and do no more");
  command
      ->add_flag("--restored", options->restored,
                 "Recover a file that was copied or restored together with its journal, which was written for "
                 "another inode")
      ->needs("--recover");
  command->callback([options] {
    about(options->file_name, [&] {
      const std::vector<TensorEdit> edits = options->edits();
      if (edits.empty() != options->recover) {
        throw Error(ErrorCode::kUsage, "either edits or --recover say what to do");
      }
      if (options->recover) {
        return print_recovery(options->file_name, recover(options->file_name, {.restored = options->restored}));
      }
      ProgressLine progress("edit", options->progress);
      ReadOptions read = options->read_options();
      EditOptions edit;
      edit.key = std::move(read.key);
      edit.io_path = options->io_path;
      edit.progress = progress.callback();
      const Growth growth = edit_tensors(options->file_name, edits, std::move(edit));
      progress.clear();
      note_lost_owner(options->file_name, growth);
    });
  });
}

}  // namespace tzmark::cli
