// tzmark inspect: shows people what is in a file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "cli/commands.h"
#include "cli/sibling.h"

namespace tzmark::cli {
namespace {

struct Row {
  std::string name, kind, dtype, shape, size, sealed;
};

std::string sealed_text(const TensorInfo& tensor, const TensorHeader& header) {
  std::string text;
  for (const TensorHeader::Hash& hash : header.hashes) {
    text += text.empty() ? "" : " ";
    text += hash.is_sha256 ? "sha256" : "crc32";
  }
  if (const auto& cipher = header.crypt.cipher) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", cipher->sequential ? "sealed whole" : "sealed by ");
    if (!cipher->sequential) text += human_bytes(cipher->message_bytes);
    if (header.crypt.key_derivation) text += ", passphrase";
  }
  if (tensor.meta()) text += text.empty() ? "meta" : " meta";
  return text.empty() ? "no hash" : text;
}

void print_table(const Reader& reader) {
  const TensorTable& tensors = reader.tensors();
  std::vector<std::string> sealed(tensors.size());
  reader.check_headers([&](std::size_t i, const TensorHeader& header, std::span<const std::byte>) {
    sealed[i] = sealed_text(tensors[i], header);
  });
  const auto row = [&](std::size_t i) {
    const TensorInfo tensor = tensors[i];
    std::string dtype = tensor.dtype.foreign() ? printable(tensor.dtype.wire) + " (foreign)" : tensor.dtype.name;
    if (tensor.dtype.big_endian) dtype += " big-endian";
    return Row{printable(display_path(tensor.path())),
               std::string(kind_name(tensor.kind)),
               std::move(dtype),
               fmt::format("[{}]", fmt::join(tensor.shape, ", ")),
               human_bytes(tensor.data_length),
               sealed[i]};
  };
  std::array<std::size_t, 5> width = {4, 4, 5, 5, 4};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Row r = row(i);
    const std::array lengths = {r.name.size(), r.kind.size(), r.dtype.size(), r.shape.size(), r.size.size()};
    // A very long name must not push the other columns off the screen.
    constexpr std::size_t kWidthMax = 60;
    for (std::size_t c = 0; c < width.size(); ++c) width[c] = std::max(width[c], std::min(lengths[c], kWidthMax));
  }
  std::string text;
  const auto line = [&](const Row& r) {
    fmt::format_to(std::back_inserter(text), "{:<{}}  {:<{}}  {:<{}}  {:<{}}  {:>{}}  {}\n", r.name, width[0], r.kind,
                   width[1], r.dtype, width[2], r.shape, width[3], r.size, width[4], r.sealed);
  };
  line({"NAME", "KIND", "DTYPE", "SHAPE", "DATA", "SEALED BY"});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    line(row(i));
    if (text.size() > (1 << 20)) {
      print(text);
      text.clear();
    }
  }
  print(text);
}

void print_summary(const std::string& file_name, const Reader& reader) {
  std::uint64_t data_bytes = 0;
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) data_bytes += reader.tensors()[i].data_length;
  print(fmt::format("{}: layout {}, data version {}, {}\n", printable(display_name(file_name)),
                    layout_name(reader.layout()), reader.header().data_version,
                    reader.header().encrypted ? "encrypted" : "not encrypted"));
  print(fmt::format("{} tensors, {} of data in a file of {} ({} of {} bytes of index used)\n\n",
                    reader.tensors().size(), human_bytes(data_bytes), human_bytes(reader.file_bytes()),
                    reader.index_used(), reader.index_length()));
}

void print_safetensors(const std::string& file_name, const SafetensorsReader& reader) {
  std::string text =
      fmt::format("{}: safetensors, {} tensors, {} of data in {} file{} of {}\n", printable(display_name(file_name)),
                  reader.size(), human_bytes(reader.data_bytes()), reader.shards().size(),
                  reader.shards().size() == 1 ? "" : "s", human_bytes(reader.file_bytes()));
  for (const auto& [key, value] : reader.metadata()) {
    fmt::format_to(std::back_inserter(text), "metadata {} = {}\n", printable(key), printable(value));
  }
  std::size_t name_width = 4, shape_width = 5;
  const auto shape_text = [](const SafetensorsTensor& t) { return fmt::format("[{}]", fmt::join(t.shape, ", ")); };
  for (std::size_t i = 0; i < reader.size(); ++i) {
    name_width = std::max(name_width, std::min<std::size_t>(60, printable(reader[i].name).size()));
    shape_width = std::max(shape_width, std::min<std::size_t>(60, shape_text(reader[i]).size()));
  }
  fmt::format_to(std::back_inserter(text), "\n{:<{}}  {:<11}  {:<{}}  {:>9}  FILE\n", "NAME", name_width, "DTYPE",
                 "SHAPE", shape_width, "DATA");
  for (std::size_t i = 0; i < reader.size(); ++i) {
    const SafetensorsTensor t = reader[i];
    fmt::format_to(std::back_inserter(text), "{:<{}}  {:<11}  {:<{}}  {:>9}  {}\n", printable(t.name), name_width,
                   t.dtype, shape_text(t), shape_width, human_bytes(t.data_length()),
                   printable(reader.shards()[t.shard].file_name));
  }
  print(text);
}

// Whether a safetensors model is text from its first byte on: a shard begins with the length of its header.
bool is_index_of_shards(File& file) {
  constexpr std::uint64_t kHeaderBytesMax = 100'000'000;
  std::array<unsigned char, 4096> begin{};
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(begin.size(), file.size()));
  file.read_at(0, std::as_writable_bytes(std::span(begin)).first(bytes));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::uint64_t{begin[i]} << (8 * i);
  const auto* const first =
      std::ranges::find_if_not(begin, [](unsigned char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
  return length > kHeaderBytesMax && first != begin.end() && *first == '{';
}

// Becomes the program that shares no code with the codec: it also reads files that the codec refuses.
[[noreturn]] void show_bytes(const InputOptions& options, bool unfolded) {
  std::string file_name = options.file_name;
  // A file that cannot be opened is reported like that of every other command. Standard input is left to the program.
  if (file_name != "-") {
    if (is_url(file_name)) throw FileError{file_name, Error(ErrorCode::kUsage, "--bytes shows files of this machine")};
    const ModelFile model = options.open_model_file();
    file_name = model.file_name;
    if (model.format == ModelFormat::kSafetensors) {
      if (options.safetensors_profile != "spec") {
        throw FileError{file_name, Error(ErrorCode::kUsage, "--bytes shows what the profile spec reads")};
      }
      if (is_index_of_shards(*model.file)) {
        throw FileError{file_name, Error(ErrorCode::kUsage, "--bytes shows one file: name a shard")};
      }
    }
  }
  std::vector<std::string> words = {"annotate"};
  if (unfolded) words.emplace_back("--unfolded");
  words.insert(words.end(), {"--", file_name});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  become_sibling("tzmark-conform", arguments.data());
}

}  // namespace

void add_inspect(CLI::App& app) {
  struct Options : InputOptions {
    bool bytes = false;
    bool unfolded = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect", "Show the tensors in a table, or every byte with its field");
  options->add_to(*command, InputOptions::Keys::kNone);
  command->add_flag("--bytes", options->bytes,
                    "Show every byte with the field that it belongs to, also of broken files");
  command->add_flag("--unfolded", options->unfolded, "With --bytes: show long data in full");
  command->callback([options] {
    if (options->bytes) show_bytes(*options, options->unfolded);
    const OpenInput input = options->open();
    with_file_name(input.file_name, [&] {
      if (input.safetensors) return print_safetensors(input.file_name, *input.safetensors);
      print_summary(input.file_name, *input.tensors);
      print_table(*input.tensors);
    });
  });
}

}  // namespace tzmark::cli
