// tzmark extract: writes the raw bytes of one tensor.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <vector>

#include "bytes/block_tags.h"
#include "bytes/pieces.h"
#include "cli/commands.h"
#include "codec/tensor_digest.h"
#include "program/arguments.h"

namespace tzmark::cli {
namespace {

constexpr std::size_t kBlockBytes = 2 << 20;

// The requested tensor, and its open file.
struct Found {
  OpenInput input;
  std::unique_ptr<TensorStream> stream;
  std::uint64_t data_length = 0;
};

[[noreturn]] void throw_no_tensor(const std::string& name) {
  throw Error(ErrorCode::kNoSuchTensor, fmt::format("there is no tensor '{}'", name));
}

void find_tensor(Found& found, const std::string& name) {
  if (found.input.safetensors) {
    const SafetensorsReader& reader = *found.input.safetensors;
    const auto tensor = reader.find(name);
    if (!tensor) throw_no_tensor(name);
    found.stream = reader.open(*tensor);
    found.data_length = reader[*tensor].data_length();
    return;
  }
  const Reader& reader = *found.input.tensors;
  auto tensor = reader.find(Path{name});
  if (!tensor) tensor = reader.find(parse_path(name));
  if (!tensor) throw_no_tensor(name);
  const TensorInfo info = reader.tensors()[*tensor];
  if (info.meta()) {
    throw Error(ErrorCode::kNoSuchTensor, fmt::format("'{}' is a meta tensor and has no data", name));
  }
  found.stream = reader.open(*tensor);
  found.data_length = info.data_length;
}

// Reads a tensor in order, and passes every block to sink.
template <typename Sink>
void stream_tensor(TensorStream& stream, std::uint64_t data_length, bool verify, Sink&& sink) {
  const ExpectedHashes none;
  const ExpectedHashes& expected = verify ? *stream.expected() : none;
  TensorDigest digest;
  if (verify) digest.begin(expected.hashed_header(), expected.wants_crc32(), expected.wants_sha256());
  for_each_piece(data_length, kBlockBytes, [&](std::uint64_t offset, std::span<std::byte> data) {
    stream.read(offset, data);
    if (verify) digest.add(data, expected.wants_crc32() ? crc32(0, data) : 0);
    sink(data);
  });
  if (verify) expected.check(digest.crc32(), digest.finish_sha256());
}

// Writes the tensor to standard output. Bytes in a pipe cannot be taken back, so a first read verifies the tensor, and
// a second read writes only the bytes that the first one verified.
void print_tensor(TensorStream& stream, std::uint64_t data_length, bool verify) {
  const auto print_block = [](std::span<const std::byte> data) { print(data); };
  if (!verify) return stream_tensor(stream, data_length, false, print_block);
  const BlockTagger tagger;
  std::vector<BlockTag> tags;
  stream_tensor(stream, data_length, true, [&](std::span<const std::byte> data) { tags.push_back(tagger.tag(data)); });
  auto verified = tags.begin();
  stream_tensor(stream, data_length, false, [&](std::span<const std::byte> data) {
    if (tagger.tag(data) != *verified++) {
      throw Error(ErrorCode::kFileChanged,
                  "the tensor changed after it was verified: the output ends before the change");
    }
    print_block(data);
  });
}

}  // namespace

void add_extract(CLI::App& app) {
  struct Options : InputOptions {
    std::string name;
    std::string output = "-";
    bool no_verify = false;
    Durability durability = Durability::kIfPossible;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("extract", "Write the raw bytes of one tensor");
  options->add_to(*command);
  accept_empty(
      *command->add_option("NAME", options->name, R"(Name, or path such as '["layers",0,"weight"]')")->required());
  command->add_option("-o,--output", options->output, "Output file; - = standard output")->capture_default_str();
  command->add_flag("--no-verify", options->no_verify, "Skip verifying the hashes of the tensor");
  add_require_durable(*command, options->durability);
  command->callback([options] {
    Found found{options->open(), nullptr};
    const std::string& file_name = found.input.file_name;
    with_file_name(file_name, [&] { find_tensor(found, options->name); });
    TensorStream& stream = *found.stream;
    const bool verify = !options->no_verify && stream.expected() != nullptr;
    if (options->output == "-") {
      with_file_name(file_name, [&] { print_tensor(stream, found.data_length, verify); });
      return;
    }
    auto output = with_file_name(options->output, [&] {
      require_not_read(options->output, found.input.file_names());
      require_not_read(options->output, options->side_file_names());
      return std::make_unique<AtomicFile>(options->output, options->saving().io_path.value_or("auto"),
                                          AtomicFile::Existing::kReplace, options->durability);
    });
    std::uint64_t position = 0;
    with_file_name(file_name, [&] {
      stream_tensor(stream, found.data_length, verify, [&](std::span<const std::byte> data) {
        with_file_name(options->output, [&] { output->file().write_at(position, data); });
        position += data.size();
      });
    });
    tell_not_durable(options->output, with_file_name(options->output, [&] { return output->commit(); }));
  });
}

}  // namespace tzmark::cli
