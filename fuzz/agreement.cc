// See agreement.h.
#include "agreement.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "expect.h"
#include "mutation/assess.h"
#include "mutation/format_mutation.h"
#include "mutation/random.h"
#include "runner/explain.h"
#include "runner/judge.h"
#include "tzmark/error.h"

// libFuzzer has it; main.cc stands in.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace tzmark::fuzz {
namespace {

namespace conf = conformance;
using conf::Json;

// A reader of everything.
const conf::Profile& profile() {
  static const conf::Profile profile = [] {
    conf::Profile made;
    made.name = "codec";
    made.reads.layouts = conf::all_layouts();
    made.commands = {"decode", "verify"};
    return made;
  }();
  return profile;
}

template <typename Action>
conf::Answer answer_of(Action&& action) {
  conf::Answer answer;
  try {
    answer.kind = conf::AnswerKind::kAccepted;
    answer.document = action();
  } catch (const Error& error) {
    expect(error.error_class() == ErrorClass::kFile, error.what());
    answer.kind = conf::AnswerKind::kRejected;
    answer.rejection = {std::string(error.rule()), error.offset(), error.message()};
  }
  return answer;
}

void require(const conf::Case& item, const std::optional<Json>& expected, conf::Command command, conf::Answer answer) {
  conf::Step step;
  step.command = command;
  step.answer = std::move(answer);
  conf::judge_step(item, expected, profile(), step);
  if (!conf::is_failure(step.outcome)) return;
  std::string rules;
  for (const std::string& rule : item.rules) rules += " " + rule;
  const auto said = [](const std::optional<Json>& json) { return json ? json->dump().substr(0, 400) : "nothing"; };
  std::fprintf(stderr, "fuzz: codec and model differ: %s: %s: %s\n  the model finds broken:%s\n  the codec: %s %s\n",
               std::string(name_of(command)).c_str(), std::string(name_of(step.outcome)).c_str(), step.reason.c_str(),
               rules.c_str(), step.answer.rejection.rule.value_or("accepted").c_str(),
               step.answer.rejection.message.c_str());
  if (step.difference) {
    std::fprintf(stderr, "  at %s: the model has %s, the codec %s\n", step.difference->pointer.c_str(),
                 said(step.difference->expected).c_str(), said(step.difference->got).c_str());
  }
  std::abort();
}

}  // namespace

void require_agreement(const conf::FileFormat& format, std::span<const std::byte> file,
                       const std::optional<std::string>& key_hex, const Codec& codec) {
  const conf::mutation::Assessment assessment = conf::mutation::assess(format, file, key_hex, std::nullopt);
  const auto& [item, expected] = std::tie(assessment.item, assessment.expected);
  require(item, expected, conf::Command::kDecode, answer_of([&] { return Json::parse(codec.decode()); }));
  require(item, expected, conf::Command::kVerify, answer_of([&] {
            codec.verify();
            return Json{{"verified", true}};
          }));
}

std::size_t mutate(const conf::FileFormat& format, const std::optional<std::string>& key_hex, std::uint8_t* data,
                   std::size_t size, std::size_t max_size, unsigned seed) {
  conf::mutation::Random random(seed, size);
  if (random.one_in(2)) return LLVMFuzzerMutate(data, size, max_size);
  conf::Case item;
  item.key_hex = key_hex;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  conf::mutation::Seed whole{&item, &format, std::vector<std::byte>(bytes, bytes + size), {}, {}, {}};
  const conf::mutation::FormatMutation& row = conf::mutation::mutation_of(format);
  whole.description = format.describe(whole.bytes, conf::secret_of(item), {});
  // Such changes are for files that are right.
  if (std::ranges::any_of(whole.description.defects, conf::model::refuses_verify)) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  row.prepare(whole);
  conf::mutation::MutatedFile mutated;
  mutated.seed = &whole;
  mutated.key_hex = key_hex;
  row.mutate(whole, random, mutated);
  if (mutated.bytes.empty() || mutated.bytes.size() > max_size || mutated.bytes == whole.bytes) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  std::copy(mutated.bytes.begin(), mutated.bytes.end(), reinterpret_cast<std::byte*>(data));
  return mutated.bytes.size();
}

}  // namespace tzmark::fuzz
