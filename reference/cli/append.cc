// tzmark append: adds tensors to a v5-segments file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>
#include <vector>

#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/source.h"
#include "program/arguments.h"
#include "tzmark/edit.h"

namespace tzmark::cli {
namespace {

// FILE is the target here, and the input is INPUT.
struct AppendOptions : InputOptions, OutputOptions {
  std::string target;
  std::vector<std::string> raw;  // NAME DTYPE SHAPE FILE, repeated
  bool drop_metadata = false;
  bool show_growth = false;

  // Without INPUT.
  std::vector<std::string> read_file_names() const {
    std::vector<std::string> names = side_file_names();
    for (std::string& name : encrypt_keys.file_names()) names.push_back(std::move(name));
    for (std::size_t i = 3; i < raw.size(); i += 4) names.push_back(raw[i]);
    return names;
  }

  WriteOptions append_options() const {
    WriteOptions options = write_options();
    apply(saving(), options);
    return options;
  }
};

// Parses a shape such as "2,3"; "" is that of a scalar.
std::vector<std::uint64_t> parse_shape(std::string_view text) {
  std::vector<std::uint64_t> shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    const auto [next, failed] = std::from_chars(at, end, shape.emplace_back());
    if (failed != std::errc() || (next != end && (*next != ',' || next + 1 == end))) {
      throw Error(ErrorCode::kUsage, fmt::format("'{}' is not a shape such as 2,3", text));
    }
    at = next + (next != end ? 1 : 0);
  }
  return shape;
}

// Tensors whose data are whole files, one each.
class RawSource final : public TensorSource {
 public:
  RawSource(const std::vector<std::string>& raw, const std::string& io_path) : io_path_(io_path) {
    for (std::size_t i = 0; i + 3 < raw.size(); i += 4) {
      const Path path = parse_path(raw[i]);
      table_.add(path, Kind::kStateDict, dtype_from_name(raw[i + 1]), parse_shape(raw[i + 2]));
      const std::uint64_t wanted = table_[table_.size() - 1].data_length;
      with_file_name(raw[i + 3], [&] {
        const std::uint64_t found = open_file(raw[i + 3], OpenMode::kRead, io_path)->size();
        if (found != wanted) {
          throw Error(ErrorCode::kUsage,
                      fmt::format("{} bytes, but dtype and shape of '{}' need {}", found, raw[i], wanted));
        }
      });
      file_names_.push_back(raw[i + 3]);
    }
  }
  const TensorTable& table() const { return table_; }

  std::unique_ptr<TensorStream> open(std::size_t tensor) const override {
    class Stream final : public TensorStream {
     public:
      Stream(const std::string& file_name, const std::string& io_path)
          : file_name_(file_name), file_(open_file(file_name, OpenMode::kRead, io_path)) {}
      void read(std::uint64_t offset, MutableBuffer out) override {
        with_file_name(file_name_, [&] { file_->read_at(offset, out); });
      }

     private:
      const std::string& file_name_;
      std::unique_ptr<File> file_;
    };
    const std::string& name = file_names_[tensor];
    return with_file_name(name, [&] { return std::make_unique<Stream>(name, io_path_); });
  }

 private:
  std::string io_path_;
  TensorTable table_;
  std::vector<std::string> file_names_;
};

void run(const AppendOptions& options) {
  const auto about_target = [&](auto&& action) { return with_file_name(options.target, action); };
  if (options.file_name.empty() == options.raw.empty()) {
    about_target([] { throw Error(ErrorCode::kUsage, "give either INPUT or --raw"); });
  }
  ProgressLine progress("append", options.progress);
  WriteOptions write_options = about_target([&] {
    require_not_read(options.target, options.read_file_names());
    return options.append_options();
  });
  write_options.progress = progress.callback();
  Growth growth;
  if (options.raw.empty()) {
    const InputSource input(options);
    if (!options.drop_metadata) {
      input.require_one_metadata({}, kDropMetadataAdvice);
      with_file_name(input.file_name(), [&] { require_no_lost_metadata(input.metadata(), kDropMetadataAdvice); });
    }
    growth = with_file_names(options.target, input.file_name(), [&] {
      return append_tensors(options.target, input.table(), input, std::move(write_options));
    });
  } else {
    const auto source =
        about_target([&] { return RawSource(options.raw, options.loading().io_path.value_or(options.io_path)); });
    growth =
        about_target([&] { return append_tensors(options.target, source.table(), source, std::move(write_options)); });
  }
  progress.clear();
  tell_not_durable(options.target, growth.names_durable);
  tell_lost_owner(options.target, growth);
  if (options.show_growth) {
    print(fmt::format(R"({{"growths": {}, "inserted_bytes": {}, "copied_bytes": {}, "elapsed_ns": {}, )"
                      R"("names_durable": {}}})"
                      "\n",
                      growth.times, growth.inserted_bytes, growth.copied_bytes, growth.elapsed_ns,
                      growth.names_durable));
  }
}

}  // namespace

void add_append(CLI::App& app) {
  auto options = std::make_shared<AppendOptions>();
  CLI::App* command = app.add_subcommand("append", "Add tensors to a v5-segments file, in place");
  command->footer(
      "Appends the data at the end. Doubles a segment that is full: the file system inserts the room if it can (ext4,\n"
      "xfs), otherwise the file is copied. After a crash, the next append or edit recovers from FILE.tzmark-intent.");
  command->add_option("FILE", options->target, "v5-segments file to add to")->required();
  options->InputOptions::add_to(*command, InputOptions::Keys::kAccepted, "INPUT",
                                "A model to add all tensors of: a file, an index of shards, or their directory",
                                /*required=*/false);
  CLI::Option* const raw =
      command
          ->add_option("--raw", options->raw,
                       "Add one tensor from a file of raw bytes: NAME DTYPE SHAPE FILE, as in w float32 2,3 w.bin")
          ->type_size(4)
          ->allow_extra_args(false);
  accept_empty(*raw);  // the shape of a scalar
  options->OutputOptions::add_to(
      *command, "INPUT",
      {.key_file = "File with the key of FILE, if encrypted", .passphrase_file = "File with the passphrase of FILE"});
  command->add_flag("--drop-metadata", options->drop_metadata,
                    "Leave out the metadata of INPUT. FILE has none, so that the command refuses any but "
                    "\"format\": \"pt\" without this");
  command->add_flag("--show-growth", options->show_growth, "Print the cost of making room, as JSON");
  command->callback([options] { run(*options); });
}

}  // namespace tzmark::cli
