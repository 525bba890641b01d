// The shapes of files; see shape.h.
#include "shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <set>
#include <sstream>

#include "errors.h"

namespace tzmark::conformance {
namespace {

constexpr std::array<std::string_view, kShapeCount> kNames = {"file", "pipe", "short-reads", "read-only", "offset"};

// Whether FILE may be put into this shape only if the profile says so.
bool takes_a_claim(Shape shape) { return shape == Shape::kPipe || shape == Shape::kOffset; }

// A pipe is what stream reads from anyway, and a part of one is no question.
bool is_streamed(Shape shape) { return shape != Shape::kReadOnly && shape != Shape::kOffset; }

}  // namespace

std::string_view name_of(Shape shape) { return kNames[static_cast<std::size_t>(shape)]; }

std::vector<Shape> parse_shapes(const std::string& names) {
  std::set<Shape> wanted;
  std::istringstream words(names);
  for (std::string word; std::getline(words, word, ',');) {
    const auto* const found = std::find(kNames.begin(), kNames.end(), word);
    if (found == kNames.end()) {
      throw UsageError(fmt::format("there is no shape '{}'; there are {}", word, fmt::join(kNames, ", ")));
    }
    wanted.insert(static_cast<Shape>(found - kNames.begin()));
  }
  if (wanted.empty()) throw UsageError("a list of shapes is empty");
  return {wanted.begin(), wanted.end()};
}

std::vector<Command> commands_in(Shape shape, const Profile& profile) {
  const bool takes_file = !takes_a_claim(shape) || profile.reads.shapes.contains(std::string(name_of(shape)));
  std::vector<Command> commands;
  for (const Command command : {Command::kDecode, Command::kVerify}) {
    if (takes_file && profile.has(command)) commands.push_back(command);
  }
  if (is_streamed(shape) && profile.has(Command::kStream)) commands.push_back(Command::kStream);
  return commands;
}

std::string absence(Shape shape) {
  return takes_a_claim(shape) ? fmt::format("its profile does not have the shape {}", name_of(shape))
                              : fmt::format("its profile has no command for the shape {}", name_of(shape));
}

std::string label(Command command, Shape shape) {
  return shape == Shape::kFile ? std::string(name_of(command))
                               : fmt::format("{} ({})", name_of(command), name_of(shape));
}

}  // namespace tzmark::conformance
