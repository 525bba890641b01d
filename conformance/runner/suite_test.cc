// Tests of whole runs against an adapter that misbehaves on demand (testdata/fake_adapter.py): each fault gets its
// outcome.
#include "runner/suite.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runner/command_line.h"
#include "runner/encode_case.h"
#include "runner/errors.h"
#include "runner/sha256.h"
#include "runner/staged_file.h"
#include "testing/test_corpus.h"
#include "testing/test_environment.h"

namespace tzmark::conformance {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The manifest of a corpus, with the answers that it expects.
Manifest loaded(const TestCorpus& corpus) {
  corpus.save();
  Manifest manifest = load_manifest(corpus.directory());
  load_expected(manifest, manifest.cases);
  return manifest;
}

// The options of an adapter that answers about this corpus.
std::vector<std::string> of(const TestCorpus& corpus, std::vector<std::string> options) {
  options.insert(options.begin(), {"--corpus", corpus.directory().string()});
  return options;
}

// The results by id. Options go to the adapter: which case misbehaves, and how.
std::map<std::string, CaseResult> run(TestCorpus& corpus, std::vector<std::string> options,
                                      SuiteOptions suite_options = {.jobs = 2, .limits = {}, .kept = {}}) {
  const Manifest manifest = loaded(corpus);
  // Some leave marks in the corpus, by which a later process of theirs knows what an earlier one did.
  const Adapter adapter(fake_adapter(of(corpus, std::move(options))), kNotCancelled, Form::kAny, std::nullopt,
                        {.writable = {corpus.directory()}});
  std::size_t last_done = 0;
  std::map<std::string, CaseResult> by_id;
  for (CaseResult& result : run_suite(manifest, manifest.cases, adapter, suite_options, kNotCancelled,
                                      [&](std::size_t done) { EXPECT_EQ(done, ++last_done); })) {
    const std::string id = result.item.id;
    by_id.emplace(id, std::move(result));
  }
  EXPECT_EQ(last_done, manifest.cases.size());
  return by_id;
}

// The outcome of one case of that verdict on which the adapter behaves so.
CaseResult behaving(const std::string& behaviour, const std::string& verdict, SuiteOptions suite_options = {}) {
  TestCorpus corpus;
  corpus.add("one", verdict);
  return run(corpus, {"--case", "*=" + behaviour}, suite_options).at("one");
}

TEST(Suite, HonestAnswersPass) {
  TestCorpus corpus;
  for (const char* verdict :
       {"valid", "malformed", "invalid", "authentication-failure", "integrity-failure", "implementation-defined"}) {
    corpus.add(verdict, verdict);
  }
  corpus.add("with-key", "valid")["key_hex"] = "00ff";
  corpus.add("with-passphrase", "valid")["passphrase"] = "sesame \xc3\xa9";
  const auto results = run(corpus, {});
  EXPECT_EQ(results.size(), 8u);
  for (const auto& [id, result] : results) {
    EXPECT_EQ(result.outcome, id == "implementation-defined" ? Outcome::kImplementationDefined : Outcome::kPass)
        << id << ": " << result.reason;
    EXPECT_EQ(result.steps.size(), 2u);
    EXPECT_FALSE(result.cites_other_rule());
  }
  EXPECT_EQ(results.at("implementation-defined").choice(), "accepted");
  EXPECT_EQ(results.at("valid").choice(), "");
}

TEST(Suite, WrongData) {
  const CaseResult result = behaving("wrong-data", "valid");
  EXPECT_EQ(result.outcome, Outcome::kWrongData);
  EXPECT_EQ(result.reason, "decode: /tensors/0/shape/0: expected 2, got 4");
  EXPECT_EQ(behaving("wrong-data", "integrity-failure").outcome, Outcome::kWrongData);
  EXPECT_EQ(behaving("wrong-data", "implementation-defined").outcome, Outcome::kWrongData);
}

TEST(Suite, AcceptsEverything) {
  for (const char* verdict : {"malformed", "invalid", "authentication-failure", "integrity-failure"}) {
    EXPECT_EQ(behaving("accept", verdict).outcome, Outcome::kAcceptedInvalid) << verdict;
  }
}

TEST(Suite, RejectsEverything) {
  const CaseResult result = behaving("reject", "valid");
  EXPECT_EQ(result.outcome, Outcome::kRejectedValid);
  EXPECT_THAT(result.reason, HasSubstr("TZR-HDR-002 at byte 65"));
  EXPECT_EQ(behaving("reject", "integrity-failure").outcome, Outcome::kPass);
  EXPECT_EQ(behaving("reject", "implementation-defined").choice(), "rejected");
}

// What the file header does not tell a reader of another layout may be refused, and must not be read as something else.
TEST(Suite, LayoutsThatShareADataVersion) {
  const auto outcome = [](const std::string& behaviour, const std::string& verdict) {
    TestCorpus corpus;
    corpus.add("one", verdict)["layout"] = "v5-segments";
    const std::string profile =
        R"({"protocol": 1, "name": "fake", "version": "1", "commands": ["decode", "verify"],
            "reads": {"layouts": ["v5-flagged-dims"], "omits": ["layout"]}})";
    return run(corpus, {"--case", "*=" + behaviour, "--profile", profile}).at("one").outcome;
  };
  EXPECT_EQ(outcome("reject", "valid"), Outcome::kPass);
  EXPECT_EQ(outcome("honest", "valid"), Outcome::kPass);
  EXPECT_EQ(outcome("wrong-data", "valid"), Outcome::kWrongData);
  EXPECT_EQ(outcome("accept", "malformed"), Outcome::kSkipped);
}

TEST(Suite, RecordsAnotherRule) {
  const CaseResult result = behaving("reject-for-another-rule", "invalid");
  EXPECT_EQ(result.outcome, Outcome::kPass);
  EXPECT_TRUE(result.cites_other_rule());
  // Nothing was refused as it must be where the reader may choose.
  EXPECT_FALSE(behaving("reject-for-another-rule", "implementation-defined").cites_other_rule());
}

TEST(Suite, FailedCasesDoNotCountAsRefusedForAnotherRule) {
  TestCorpus corpus;
  corpus.add("one", "invalid");
  const CaseResult result =
      run(corpus, {"--case", "one:decode=reject-for-another-rule", "--case", "one=accept"}).at("one");
  EXPECT_EQ(result.outcome, Outcome::kAcceptedInvalid);
  EXPECT_TRUE(result.steps[0].cites_other_rule);
  EXPECT_FALSE(result.cites_other_rule());
}

// A refusal is expected of these files; a crash must not pass for one.
TEST(Suite, CrashesAreNotRejections) {
  for (const char* behaviour : {"exception", "usage", "print-nothing", "print-noise", "segfault"}) {
    const CaseResult result = behaving(behaviour, "malformed");
    EXPECT_EQ(result.outcome, Outcome::kCrash) << behaviour;
  }
  EXPECT_THAT(behaving("exception", "malformed").steps[0].process.stderr_tail, HasSubstr("ValueError: cannot unpack"));
  EXPECT_THAT(behaving("segfault", "malformed").reason, HasSubstr("signal 11"));
}

TEST(Suite, OutputWithoutEnd) {
  const CaseResult result = behaving("flood", "malformed");
  EXPECT_EQ(result.outcome, Outcome::kOutput);
  EXPECT_THAT(result.reason, HasSubstr("printed more than 64 MiB"));
}

// An answer counts only with the end of the process that gave it.
TEST(Suite, AnAnswerDoesNotHideTheEnd) {
  for (const char* behaviour : {"segfault-in-another-group", "fail-in-another-group", "kill-parent"}) {
    const CaseResult result = behaving(behaviour, "valid");
    EXPECT_EQ(result.outcome, Outcome::kCrash) << behaviour << ": " << result.reason;
  }
}

TEST(Suite, ChainsOfProcessesEnd) { EXPECT_EQ(behaving("leave-chain-behind", "valid").outcome, Outcome::kPass); }

TEST(Suite, DiskIsLimited) {
  for (const char* behaviour : {"fill-disk", "leave-temporary-files"}) {
    const CaseResult result = behaving(behaviour, "valid");
    EXPECT_EQ(result.outcome, Outcome::kDisk) << behaviour << ": " << result.reason;
    EXPECT_THAT(result.reason, HasSubstr("MiB to disk"));
  }
}

TEST(Suite, LimitsCannotBeBought) {
  TestCorpus corpus;
  for (const char* id : {"spike", "slow"}) corpus.add(id, "valid");
  const Manifest manifest = loaded(corpus);
  const Adapter adapter(
      fake_adapter(of(corpus, {"--costly-start", "--case", "spike=spike-after-a-costly-start", "--case", "slow=hang"})),
      kNotCancelled);
  EXPECT_GT(adapter.idle_rss_bytes(), 700u << 20);
  EXPECT_GT(adapter.idle_elapsed(), 4s);
  EXPECT_EQ(adapter.idle_counted_rss_bytes(), kIdleRssMaxBytes);
  EXPECT_EQ(adapter.idle_counted_elapsed(), kIdleElapsedMax);
  const auto run_one = [&](const Case& item, std::chrono::nanoseconds elapsed_max, std::uint64_t memory_max_bytes) {
    SuiteOptions options;
    options.limits.elapsed_max = elapsed_max;
    options.limits.memory_max_bytes = memory_max_bytes;
    return run_suite(manifest, {item}, adapter, options, kNotCancelled, [](std::size_t) {}).at(0);
  };
  EXPECT_EQ(run_one(manifest.cases.at(0), 60s, 256u << 20).outcome, Outcome::kMemory);
  const auto elapsed_over = adapter.idle_elapsed() - kIdleElapsedMax;
  const CaseResult slow = run_one(manifest.cases.at(1), elapsed_over + 1s, 256u << 20);
  EXPECT_EQ(slow.outcome, Outcome::kHang);
  EXPECT_LT(slow.steps.at(0).process.elapsed, adapter.idle_elapsed() + elapsed_over + 1s);
  // Where even a right answer could not pass, no case is judged.
  const auto error_of = [&](std::chrono::nanoseconds elapsed_max, std::uint64_t memory_max_bytes) -> std::string {
    try {
      run_one(manifest.cases.at(0), elapsed_max, memory_max_bytes);
      return "judged";
    } catch (const EnvironmentError& error) {
      return error.what();
    }
  };
  EXPECT_THAT(error_of(600ms, 256u << 20), HasSubstr("let it answer serve, or raise --timeout"));
  EXPECT_THAT(error_of(60s, 64u << 20), HasSubstr("let it answer serve, or raise --memory"));
}

TEST(Suite, WhatFailingCapabilitiesLeaveIsEnded) {
  try {
    const Adapter adapter(fake_adapter({"--leave"}), kNotCancelled);
    FAIL() << "capabilities failed";
  } catch (const EnvironmentError& error) {
    const std::string text = error.what();
    const std::size_t at = text.find("left ");
    ASSERT_NE(at, std::string::npos) << text;
    EXPECT_EQ(::kill(std::stoi(text.substr(at + 5)), 0), -1);
    EXPECT_EQ(errno, ESRCH);
  }
}

const char* const kServes = R"({"protocol": 1, "name": "fake", "version": "1",
  "commands": ["decode", "verify", "encode", "serve"], "reads": {"layouts": ["v1"]}, "writes": {"layouts": ["v1"]}})";

const char* const kReadsOnly = R"({"protocol": 1, "name": "fake", "version": "1", "commands": ["decode", "verify"],
  "reads": {"layouts": ["v1"]}})";

// One process answers many questions; whatever goes wrong with one of them is its outcome, and the run goes on.
TEST(Suite, OneRunAfterAnotherHasServicesOfItsOwn) {
  TestCorpus corpus;
  for (const char* id : {"a", "b", "c", "d"}) corpus.add(id, "valid");
  const Manifest manifest = loaded(corpus);
  const Adapter adapter(fake_adapter(of(corpus, {"--profile", kServes})), kNotCancelled);
  SuiteOptions options;
  options.jobs = 2;
  // Threads of a later run have the ids of earlier ones, whose services die with them.
  for (int turn = 0; turn < 10; ++turn) {
    for (const CaseResult& result :
         run_suite(manifest, manifest.cases, adapter, options, kNotCancelled, [](std::size_t) {})) {
      EXPECT_EQ(result.outcome, Outcome::kPass) << result.reason;
    }
  }
}

TEST(Suite, ServesThroughEveryFault) {
  TestCorpus corpus;
  std::vector<std::string> options = {"--profile", kServes};
  const std::vector<std::pair<const char*, Outcome>> faults = {
      {"honest", Outcome::kPass},         {"exception", Outcome::kCrash}, {"segfault", Outcome::kCrash},
      {"print-nothing", Outcome::kCrash}, {"caught", Outcome::kCrash},    {"answer-twice", Outcome::kCrash},
      {"hang", Outcome::kHang},           {"spike", Outcome::kMemory},    {"hog", Outcome::kMemory},
      {"flood", Outcome::kOutput},        {"fill-disk", Outcome::kDisk},  {"reject", Outcome::kRejectedValid}};
  for (const auto& [behaviour, outcome] : faults) {
    corpus.add(behaviour, "valid");
    corpus.add(std::string("after-") + behaviour, "valid");
    options.insert(options.end(), {"--case", fmt::format("{}={}", behaviour, behaviour)});
  }
  const auto results =
      run(corpus, options, {.jobs = 2, .limits = {.elapsed_max = 3s, .memory_max_bytes = {}}, .kept = {}});
  for (const auto& [behaviour, outcome] : faults) {
    const CaseResult& result = results.at(behaviour);
    EXPECT_EQ(result.outcome, outcome) << behaviour << ": " << result.reason;
    EXPECT_EQ(results.at(std::string("after-") + behaviour).outcome, Outcome::kPass) << behaviour;
  }
  EXPECT_EQ(results.at("honest").steps[0].process.end, ProcessEnd::kAnswered);
  EXPECT_THAT(results.at("exception").steps[0].process.stderr_tail, HasSubstr("ValueError"));
}

// Six valid cases and one to write, in this order, by one process that serves.
std::map<std::string, CaseResult> served_in_order(const std::vector<std::string>& behaviours,
                                                  SuiteOptions options = {}) {
  TestCorpus corpus;
  // Cases of a sequence are asked in their order.
  for (const char* id : {"a", "b", "c", "d", "e", "f"}) corpus.add(id, "valid")["sequence"] = "all";
  corpus.write("right.tensors", worked_example());
  corpus.add_encode("g", "valid", Json(corpus.directory() / "right.tensors"))["sequence"] = "all";
  std::vector<std::string> words = {"--profile", kServes};
  for (const std::string& behaviour : behaviours) words.insert(words.end(), {"--case", behaviour});
  options.jobs = 1;
  return run(corpus, words, options);
}

std::vector<std::string> needed(const Step& step) {
  std::vector<std::string> questions;
  for (const EarlierQuestion& question : step.only_after.value().questions) {
    questions.push_back(fmt::format("{} {}", label(question.command, question.mode), question.id));
  }
  return questions;
}

TEST(AskedAgain, NamesTheEarlierQuestionThatAFailureDependsOn) {
  auto results = served_in_order({"b=remember", "e=wrong-after-one", "g=wrong-after-one"});
  const CaseResult& read = results.at("e");
  EXPECT_EQ(read.outcome, Outcome::kWrongData);
  EXPECT_EQ(read.reason,
            "decode: /tensors/0/shape/0: expected 2, got 4; only after earlier questions; a fresh process passes, and "
            "fails after verify b");
  const Step& step = read.steps.at(0);
  EXPECT_EQ(step.fails_afresh, false);
  EXPECT_EQ(step.only_after.value().asked, 8u);
  EXPECT_THAT(needed(step), ElementsAre("verify b"));
  EXPECT_TRUE(step.only_after->shortest);
  EXPECT_THAT(step.only_after->repeat, ::testing::AllOf(HasSubstr("b.bin"), HasSubstr("e.bin"), HasSubstr(" serve")));
  EXPECT_EQ(results.at("g").outcome, Outcome::kPass) << "the process that remembered b was replaced";
  // A line cannot repeat what needs the data of a specification.
  results = served_in_order({"b=remember", "g=wrong-after-one"});
  EXPECT_THAT(needed(results.at("g").steps.at(0)), ElementsAre("verify b"));
  EXPECT_EQ(results.at("g").steps.at(0).only_after->repeat, "");
}

TEST(AskedAgain, NamesAllQuestionsThatAreNeeded) {
  const auto results = served_in_order({"b=remember", "d=remember", "f=wrong-after-two"});
  EXPECT_THAT(needed(results.at("f").steps.at(0)), ElementsAre("verify b", "verify d"));
}

TEST(AskedAgain, RepeatsEarlierQuestionsUnderTheSamePath) {
  const auto results = served_in_order({"b=remember-path", "e=wrong-about-a-path"});
  EXPECT_EQ(results.at("e").outcome, Outcome::kWrongData);
  EXPECT_THAT(needed(results.at("e").steps.at(0)), ElementsAre("verify b"));
  EXPECT_EQ(results.at("f").outcome, Outcome::kPass);
}

TEST(AskedAgain, AFailureOfAFreshProcessIsNoMore) {
  const auto results = served_in_order({"a=wrong-data", "e=wrong-data"});
  for (const char* id : {"a", "e"}) {
    const Step& step = results.at(id).steps.at(0);
    EXPECT_EQ(step.fails_afresh, true) << id;
    EXPECT_FALSE(step.only_after) << id;
    EXPECT_EQ(results.at(id).reason, "decode: /tensors/0/shape/0: expected 2, got 4");
  }
  EXPECT_EQ(results.at("b").steps.at(0).fails_afresh, std::nullopt) << "it passed";
  // Each question has a process of its own here.
  EXPECT_EQ(behaving("wrong-data", "valid").steps.at(0).fails_afresh, std::nullopt);
}

TEST(AskedAgain, AFailureThatDoesNotRepeatIsSaidToBeSo) {
  const auto results = served_in_order({"d=wrong-once"});
  EXPECT_THAT(needed(results.at("d").steps.at(0)), ElementsAre());
  EXPECT_THAT(results.at("d").reason, HasSubstr("and so does one that is asked the same 6 again"));
}

TEST(AskedAgain, BlamesNoQuestionForAFailureThatComesAndGoes) {
  const auto results = served_in_order({"d=wrong-now-and-then"});
  EXPECT_THAT(needed(results.at("d").steps.at(0)), ElementsAre());
}

TEST(AskedAgain, AProcessThatDoesNotServeIsAnOutcomeIfAnotherDoes) {
  TestCorpus corpus;
  for (const char* id : {"a", "b", "c"}) corpus.add(id, "valid")["sequence"] = "all";
  const std::string started = corpus.directory() / "started";
  SuiteOptions options;
  options.jobs = 1;
  const auto results = run(corpus, {"--profile", kServes, "--starts-later", started}, options);
  EXPECT_EQ(results.at("a").outcome, Outcome::kCrash);
  EXPECT_EQ(results.at("a").reason, "decode: a new process does not serve: exit status 1");
  EXPECT_EQ(results.at("b").outcome, Outcome::kPass);
  EXPECT_EQ(results.at("c").outcome, Outcome::kPass);
}

// The one that fails does so while the other one still starts.
TEST(AskedAgain, AProcessThatServesAloneDoesNotEndTheRun) {
  TestCorpus corpus;
  for (const char* id : {"a", "b", "c", "d"}) corpus.add(id, "valid")["sequence"] = "all";
  const std::string lock = corpus.directory() / "lock";
  SuiteOptions options;
  options.jobs = 2;
  int passed = 0;
  for (const auto& [id, result] : run(corpus, {"--profile", kServes, "--serves-alone", lock}, options)) {
    if (result.outcome == Outcome::kPass) {
      ++passed;
    } else {
      EXPECT_EQ(result.outcome, Outcome::kCrash) << id;
    }
  }
  EXPECT_GE(passed, 1);
}

TEST(AskedAgain, EndsTheRunWhereNoProcessServes) {
  TestCorpus corpus;
  for (const char* id : {"a", "b", "c"}) corpus.add(id, "valid")["sequence"] = "all";
  SuiteOptions options;
  options.jobs = 2;
  const std::string nowhere = corpus.directory() / "nowhere/lock";
  EXPECT_THROW(run(corpus, {"--profile", kServes, "--serves-alone", nowhere}, options), EnvironmentError);
}

TEST(AskedAgain, AProcessThatCannotStartAgainDoesNotEndTheRun) {
  TestCorpus corpus;
  for (const char* id : {"a", "b", "c"}) corpus.add(id, "valid")["sequence"] = "all";
  const std::filesystem::path started = corpus.directory() / "started";
  SuiteOptions options;
  options.jobs = 1;
  const auto results =
      run(corpus, {"--profile", kServes, "--starts-once", started.string(), "--case", "b=wrong-data"}, options);
  EXPECT_EQ(results.at("a").outcome, Outcome::kPass);
  const CaseResult& failed = results.at("b");
  EXPECT_EQ(failed.outcome, Outcome::kWrongData);
  EXPECT_EQ(failed.reason,
            "decode: /tensors/0/shape/0: expected 2, got 4; could not be asked again: a new process does not serve: "
            "exit status 1");
  EXPECT_EQ(failed.steps.at(0).fails_afresh, std::nullopt);
  const CaseResult& later = results.at("c");
  EXPECT_EQ(later.outcome, Outcome::kCrash);
  EXPECT_EQ(later.reason, "decode: a new process does not serve: exit status 1");
  EXPECT_THAT(later.steps.at(0).process.stderr_tail, HasSubstr("FileExistsError"));
  EXPECT_EQ(later.steps.at(0).service, std::nullopt);
}

TEST(AskedAgain, StopsWithItsBudget) {
  SuiteOptions options;
  options.fresh_elapsed_max = 0s;
  const std::vector<std::string> behaviours = {"b=remember", "e=wrong-after-one"};
  auto results = served_in_order(behaviours, options);
  EXPECT_EQ(results.at("e").outcome, Outcome::kWrongData);
  EXPECT_EQ(results.at("e").steps.at(0).fails_afresh, std::nullopt);
  options.fresh_elapsed_max = 60s;
  options.search_elapsed_max = 0s;
  results = served_in_order(behaviours, options);
  const Step& step = results.at("e").steps.at(0);
  EXPECT_EQ(needed(step).size(), 8u);
  EXPECT_FALSE(step.only_after->shortest);
  EXPECT_THAT(results.at("e").reason, HasSubstr("verify b and 4 more (not fully searched)"));
}

// Files that come through a pipe: whole, and with zeros without end behind them.
TEST(Suite, Stream) {
  TestCorpus corpus;
  corpus.add("right", "valid");
  corpus.add("early", "malformed")["limits"]["pipe_bytes"] = 65536;
  corpus.add("late", "malformed")["limits"]["pipe_bytes"] = 65536;
  const std::string profile = R"({"protocol": 1, "name": "fake", "version": "1", "commands": ["stream"],
                                  "reads": {"layouts": ["v1"]}})";
  const auto results = run(corpus, {"--profile", profile, "--case", "late=read-on"});
  EXPECT_EQ(results.at("right").outcome, Outcome::kPass) << results.at("right").reason;
  EXPECT_EQ(results.at("right").steps[0].process.stdin_taken_bytes, std::string("content of right").size());
  EXPECT_EQ(results.at("early").outcome, Outcome::kPass) << results.at("early").reason;
  EXPECT_LE(results.at("early").steps[0].process.stdin_taken_bytes, 65536u);
  EXPECT_EQ(results.at("late").outcome, Outcome::kHang);
  EXPECT_THAT(results.at("late").reason, HasSubstr("still did not refuse"));
}

// One that takes the first read of stdin for all of it, and is right about whole files.
TEST(Suite, StreamInPieces) {
  TestCorpus corpus;
  corpus.add("right", "valid");
  corpus.add("hasty", "valid");
  const std::string profile = R"({"protocol": 1, "name": "fake", "version": "1", "commands": ["stream"],
                                  "reads": {"layouts": ["v1"]}})";
  SuiteOptions options;
  options.input.modes = {InputMode::kFile, InputMode::kShortReads};
  const auto results = run(corpus, {"--profile", profile, "--case", "hasty=refuse-after-one-read"}, options);
  EXPECT_EQ(results.at("right").outcome, Outcome::kPass) << results.at("right").reason;
  const CaseResult& hasty = results.at("hasty");
  EXPECT_THAT(hasty.reason, HasSubstr("stream (short-reads): rejected"));
  ASSERT_EQ(hasty.steps.size(), 2u);
  EXPECT_EQ(hasty.steps[0].outcome, Outcome::kPass);
}

TEST(Suite, DecisiveStepIsOfAShape) {
  Profile profile;
  profile.commands = {"decode", "verify"};
  CaseResult result;
  EXPECT_EQ(decisive_step(result, profile, {InputMode::kPipe, InputMode::kReadOnly}).mode, InputMode::kReadOnly);
  result.item.verdict = Verdict::kIntegrityFailure;
  EXPECT_EQ(decisive_step(result, profile, {InputMode::kFile}).command, Command::kVerify);
  result.outcome = Outcome::kCrash;
  for (const InputMode mode : {InputMode::kFile, InputMode::kOffset}) {
    Step step;
    step.mode = mode;
    step.outcome = mode == InputMode::kOffset ? Outcome::kCrash : Outcome::kPass;
    result.steps.push_back(step);
  }
  EXPECT_EQ(decisive_step(result, profile, {InputMode::kFile, InputMode::kOffset}).mode, InputMode::kOffset);
}

// The file of FORMAT.md's worked example, and one that is no file of the format.
TEST(Suite, Encode) {
  TestCorpus corpus;
  corpus.write("right.tensors", worked_example());
  std::string damaged = worked_example();
  damaged[190] = '\x01';
  corpus.write("damaged.tensors", damaged);
  const auto add = [&](const char* id, const char* verdict, const std::string& writes) {
    corpus.add_encode(id, verdict, writes.empty() ? Json() : Json(corpus.directory() / writes));
  };
  add("right", "valid", "right.tensors");
  add("damaged", "valid", "damaged.tensors");
  add("nothing", "valid", "");
  add("refused", "invalid", "");
  add("accepted", "invalid", "right.tensors");
  add("left-behind", "invalid", "");
  add("fifo", "valid", "");
  add("endless", "valid", "");
  add("unreadable", "valid", "");
  const TestCorpus kept;
  const auto results = run(corpus,
                           {"--profile", kServes, "--case", "refused=reject", "--case", "accepted=accept", "--case",
                            "left-behind=leave-file-behind", "--case", "fifo=leave-fifo", "--case",
                            "endless=leave-endless-file", "--case", "unreadable=leave-unreadable-file"},
                           {.jobs = 2, .limits = {}, .kept = kept.directory()});
  EXPECT_EQ(results.at("right").outcome, Outcome::kPass) << results.at("right").reason;
  ASSERT_TRUE(results.at("right").steps[0].written);
  EXPECT_EQ(results.at("right").steps[0].written->size_bytes, 200u);
  const CaseResult& broken = results.at("damaged");
  EXPECT_EQ(broken.outcome, Outcome::kWrongData);
  EXPECT_THAT(broken.reason, HasSubstr("TZR-HSH-00"));
  ASSERT_TRUE(broken.steps[0].explanation);
  EXPECT_THAT(broken.steps[0].explanation->bytes, ::testing::Not(::testing::IsEmpty()));
  EXPECT_EQ(results.at("nothing").reason, "encode: no file was written");
  EXPECT_EQ(results.at("refused").outcome, Outcome::kPass);
  EXPECT_EQ(results.at("accepted").outcome, Outcome::kAcceptedInvalid);
  EXPECT_EQ(results.at("left-behind").outcome, Outcome::kWrongData);
  EXPECT_THAT(results.at("fifo").reason, HasSubstr("is not a file"));
  EXPECT_THAT(results.at("endless").reason, HasSubstr("has 2147483648 bytes, more than"));
  EXPECT_EQ(results.at("unreadable").outcome, Outcome::kWrongData);
  // Copies of what was judged are kept, and nothing else.
  EXPECT_EQ(sha256_of_file(kept.directory() / "right/out.tensors"),
            sha256_of_file(corpus.directory() / "right.tensors"));
  EXPECT_TRUE(std::filesystem::exists(kept.directory() / "left-behind/out.tensors"));
  for (const char* id : {"nothing", "fifo", "endless"}) {
    EXPECT_TRUE(std::filesystem::exists(kept.directory() / id)) << id;
    EXPECT_FALSE(std::filesystem::exists(kept.directory() / id / "out.tensors")) << id;
  }
}

// A crash after the answer is one all the same, also after the last question.
TEST(Suite, AServiceThatCrashesAfterItsAnswerFails) {
  TestCorpus corpus;
  for (const char* id : {"a", "b", "last"}) corpus.add(id, "valid")["sequence"] = "all";
  const SuiteOptions options = {.jobs = 1, .limits = {}, .kept = {}};
  for (const char* when : {"last:verify=answer-and-die", "*=die-at-the-end"}) {
    const auto results = run(corpus, {"--profile", kServes, "--case", when}, options);
    for (const auto& [id, result] : results) {
      EXPECT_EQ(result.outcome, id == "last" ? Outcome::kCrash : Outcome::kPass) << when << id << result.reason;
    }
    EXPECT_THAT(results.at("last").reason, HasSubstr("verify: answered, and then: killed by signal 9")) << when;
  }
}

// Each is told that it is not asked any more, and has the time to end.
TEST(Suite, ServicesSeeTheEndOfStdin) {
  TestCorpus corpus;
  corpus.add("one", "valid");
  const auto results = run(corpus, {"--profile", kServes, "--at-end", (corpus.directory() / "ended").string()});
  EXPECT_EQ(results.at("one").outcome, Outcome::kPass);
  EXPECT_TRUE(std::filesystem::exists(corpus.directory() / "ended"));
}

TEST(Suite, AChangedFileIsAFailure) {
  for (const char* const profile : {kServes, kReadsOnly}) {
    for (const char* const behaviour : {"remove-file", "change-file"}) {
      TestCorpus corpus;
      corpus.add("one", "valid");
      const auto results = run(corpus, {"--profile", profile, "--case", std::string("one:decode=") + behaviour});
      const CaseResult& result = results.at("one");
      EXPECT_EQ(result.outcome, Outcome::kWrongData) << behaviour;
      EXPECT_EQ(result.reason, "decode: changed or removed the file") << behaviour;
      EXPECT_EQ(result.steps.size(), 1u) << "a changed file was asked about";
    }
  }
}

TEST(Suite, AChangedSpecificationIsAFailure) {
  for (const char* const behaviour : {"remove-file", "change-file", "change-data", "replace-data", "honest"}) {
    TestCorpus corpus;
    corpus.write("right.tensors", worked_example());
    corpus.add_encode("one", "valid", Json(corpus.directory() / "right.tensors"));
    const auto results = run(corpus, {"--profile", kServes, "--case", std::string("one=") + behaviour});
    const bool is_honest = behaviour == std::string_view("honest");
    EXPECT_EQ(results.at("one").outcome, is_honest ? Outcome::kPass : Outcome::kWrongData) << behaviour;
    EXPECT_EQ(results.at("one").reason, is_honest ? "" : "encode: changed or removed the specification or its data");
  }
}

// Sets TMPDIR while it exists.
class TemporaryPlace {
 public:
  explicit TemporaryPlace(const std::string& directory) {
    if (const char* const before = std::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", directory.c_str(), 1);
  }
  ~TemporaryPlace() { before_ ? ::setenv("TMPDIR", before_->c_str(), 1) : ::unsetenv("TMPDIR"); }
  TemporaryPlace(const TemporaryPlace&) = delete;
  TemporaryPlace& operator=(const TemporaryPlace&) = delete;

 private:
  std::optional<std::string> before_;
};

// A write through a mapping changes no time of a file in memory.
TEST(Suite, AFileThatIsChangedThroughAMappingIsAFailure) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no files in memory in /dev/shm";
  const TemporaryPlace place("/dev/shm");
  EXPECT_EQ(behaving("change-mapped-file", "valid").reason, "decode: changed or removed the file");
}

TEST(Suite, TheDirectoryOfAFileIsOfOneQuestion) {
  for (const char* const profile : {kServes, kReadsOnly}) {
    TestCorpus corpus;
    for (const char* id : {"fills", "removes", "passes"}) corpus.add(id, "valid");
    const auto results = run(
        corpus,
        {"--profile", profile, "--case", "fills=fill-directory-of-file", "--case", "removes=remove-directory-of-file"},
        {.jobs = 1, .limits = {}, .kept = {}});
    EXPECT_EQ(results.at("fills").outcome, Outcome::kDisk) << results.at("fills").reason;
    EXPECT_EQ(results.at("removes").reason, "decode: changed or removed the file");
    EXPECT_EQ(results.at("passes").outcome, Outcome::kPass) << results.at("passes").reason;
  }
}

// A process may end once it has answered; the next question is not the worse for it.
TEST(Suite, AnEndBehindTheAnswerCostsNothing) {
  TestCorpus corpus;
  for (int i = 0; i < 4; ++i) corpus.add(fmt::format("case-{}", i), "valid");
  for (const auto& [id, result] :
       run(corpus, {"--profile", kServes, "--case", "*=answer-and-end"}, {.jobs = 1, .limits = {}, .kept = {}})) {
    for (const Step& step : result.steps) {
      EXPECT_TRUE(step.outcome == Outcome::kPass || step.process.end == ProcessEnd::kExited) << id << result.reason;
    }
  }
}

TEST(RandomValues, ServeOnce) {
  RandomValues random;
  EXPECT_FALSE(random.take_nonce("00", "n", "one"));
  EXPECT_FALSE(random.take_nonce("01", "n", "one")) << "another key";
  EXPECT_EQ(random.take_nonce("00", "n", "two"), "one");
  EXPECT_FALSE(random.take_salt("n", "one"));
  EXPECT_FALSE(random.take_salt("s", "one")) << "another salt";
  EXPECT_EQ(random.take_salt("n", "two"), "one");
}

TEST(Suite, Hang) {
  for (const char* behaviour : {"hang", "hang-behind-closed-output"}) {
    const CaseResult result = behaving(
        behaviour, "malformed", {.jobs = 1, .limits = {.elapsed_max = 300ms, .memory_max_bytes = {}}, .kept = {}});
    EXPECT_EQ(result.outcome, Outcome::kHang) << behaviour;
    for (const Step& step : result.steps) EXPECT_LT(step.process.elapsed, 20s);
  }
}

TEST(Suite, Memory) {
  for (const char* behaviour : {"hog", "spike", "child-hogs"}) {
    EXPECT_EQ(behaving(behaviour, "malformed").outcome, Outcome::kMemory) << behaviour;
  }
}

TEST(Suite, MemoryCountsFromTheIdleAdapter) {
  TestCorpus corpus;
  corpus.add("one", "valid");
  const auto results = run(corpus, {"--idle-bytes", std::to_string(200 << 20)});
  EXPECT_EQ(results.at("one").outcome, Outcome::kPass) << results.at("one").reason;
}

TEST(Suite, LimitsCanBeReplaced) {
  const SuiteOptions wide = {.jobs = 1, .limits = {.elapsed_max = {}, .memory_max_bytes = 1u << 30}, .kept = {}};
  EXPECT_EQ(behaving("spike", "valid", wide).outcome, Outcome::kPass);
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  const SuiteOptions none = {.jobs = 1, .limits = {.elapsed_max = {}, .memory_max_bytes = kNone}, .kept = {}};
  EXPECT_EQ(behaving("honest", "valid", none).outcome, Outcome::kPass);
}

TEST(Suite, NoiseThatIsAllowed) {
  EXPECT_EQ(behaving("chatty", "malformed").outcome, Outcome::kPass);
  EXPECT_EQ(behaving("leave-child-behind", "valid").outcome, Outcome::kPass);
  const CaseResult result = behaving("flood-stderr", "valid");
  EXPECT_EQ(result.outcome, Outcome::kPass);
  EXPECT_THAT(result.steps[0].process.stderr_tail, HasSubstr("the end of stderr"));
}

TEST(Suite, UnsupportedIsSkipped) {
  EXPECT_EQ(behaving("unsupported", "valid").outcome, Outcome::kSkipped);
  TestCorpus corpus;
  corpus.add("broken", "integrity-failure");
  corpus.add("fine", "valid");
  const auto results = run(corpus, {"--case", "*:verify=unsupported"});
  EXPECT_EQ(results.at("broken").outcome, Outcome::kSkipped);
  EXPECT_EQ(results.at("fine").outcome, Outcome::kSkipped);
}

TEST(Suite, ChoicesOfDecodeAndVerifyMayDiffer) {
  TestCorpus corpus;
  corpus.add("open", "implementation-defined");
  EXPECT_EQ(run(corpus, {"--case", "*:verify=reject"}).at("open").choice(), "accepted by decode, rejected by verify");
}

TEST(Suite, ProfileExcuses) {
  TestCorpus corpus;
  corpus.add("later", "valid")["layout"] = "v4";
  corpus.add("featured", "valid")["features"] = {"meta"};
  corpus.add("plain", "valid");
  const std::string profile = R"({"protocol": 1, "name": "old", "version": "1", "commands": ["decode"],
                                  "reads": {"layouts": ["v1"], "lacks": ["meta", "metta"]}})";
  const auto results = run(corpus, {"--profile", profile});
  EXPECT_EQ(results.at("later").outcome, Outcome::kSkipped);
  EXPECT_EQ(results.at("featured").outcome, Outcome::kSkipped);
  EXPECT_THAT(results.at("featured").reason, HasSubstr("lacks meta"));
  EXPECT_EQ(results.at("plain").outcome, Outcome::kPass);
  EXPECT_EQ(results.at("plain").steps.size(), 1u);
  EXPECT_THAT(stale_exclusions(load_manifest(corpus.directory()), parse_profile(profile)), ElementsAre("metta"));
}

TEST(Suite, ResultsAreInTheOrderOfTheCases) {
  TestCorpus corpus;
  for (int i = 0; i < 12; ++i) corpus.add(fmt::format("case-{}", i), "valid");
  const Manifest manifest = loaded(corpus);
  const Adapter adapter(fake_adapter(of(corpus, {})), kNotCancelled);
  const auto results = run_suite(manifest, manifest.cases, adapter, {.jobs = 4, .limits = {}, .kept = {}},
                                 kNotCancelled, [](std::size_t) {});
  ASSERT_EQ(results.size(), 12u);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(results[i].item.id, fmt::format("case-{}", i));
}

TEST(Suite, AChangedCorpusIsAnError) {
  TestCorpus corpus;
  corpus.add("one", "valid");
  // Skipped by the profile, and still looked at.
  corpus.add("two", "valid")["layout"] = "v9";
  corpus.write("two.bin", "changed");
  EXPECT_THROW(run(corpus, {}), EnvironmentError);
}

TEST(Suite, AnAdapterThatOverwritesTheExpectationDoesNotPass) {
  TestCorpus corpus;
  corpus.add("one", "valid");
  EXPECT_THROW(run(corpus, {"--case", "one=overwrite-expectation"}), EnvironmentError);
}

TEST(Suite, AnAdapterThatOverwritesTheCorpusEndsTheRun) {
  for (const char* behaviour : {"overwrite-case", "overwrite-rules"}) {
    TestCorpus corpus;
    corpus.add("one", "valid");
    corpus.write("rules.json", R"({"rules": {}})");
    EXPECT_THROW(run(corpus, {"--case", std::string("one=") + behaviour}), EnvironmentError) << behaviour;
  }
}

// The copies that adapters were asked about, and what they left there.
TEST(Suite, LeavesNoFiles) {
  TestCorpus corpus;
  corpus.add("one", "valid");
  TestCorpus place;
  const TemporaryPlace temporary(place.directory());
  const auto results = run(corpus, {"--case", "one:decode=remove-file"});
  EXPECT_EQ(results.at("one").outcome, Outcome::kWrongData);
  EXPECT_TRUE(std::filesystem::is_empty(place.directory()));
}

TEST(Suite, CancellingEndsIt) {
  TestCorpus corpus;
  for (int i = 0; i < 20; ++i) corpus.add(fmt::format("case-{}", i), "valid");
  const Manifest manifest = loaded(corpus);
  std::atomic<bool> cancelled = false;
  const Adapter adapter(fake_adapter(of(corpus, {"--case", "case-1[0-9]=hang"})), cancelled);
  std::jthread canceller([&] {
    std::this_thread::sleep_for(2s);
    cancelled = true;
  });
  const auto began = std::chrono::steady_clock::now();
  const auto results = run_suite(manifest, manifest.cases, adapter,
                                 {.jobs = 2, .limits = {.elapsed_max = 60s, .memory_max_bytes = {}}, .kept = {}},
                                 cancelled, [](std::size_t) {});
  EXPECT_LT(std::chrono::steady_clock::now() - began, 20s);
  EXPECT_LE(results.size(), 10u);
}

TEST(AdapterStart, FailuresAreExplained) {
  const auto message = [](std::vector<std::string> argv) -> std::string {
    try {
      const Adapter adapter(std::move(argv), kNotCancelled);
    } catch (const EnvironmentError& error) {
      return error.what();
    }
    return "started";
  };
  EXPECT_THAT(message({"/nonexistent/adapter"}), HasSubstr("No such file or directory"));
  EXPECT_THAT(message({"false"}), HasSubstr("exit status 1"));
  EXPECT_THAT(message({"/bin/sh", "-c", "echo broken >&2; kill -9 $$"}), HasSubstr("signal 9"));
  EXPECT_THAT(message({"/bin/sh", "-c", "echo broken >&2; exit 3"}), HasSubstr("broken"));
  EXPECT_THAT(message({"true"}), HasSubstr("capabilities"));
  EXPECT_THAT(message(fake_adapter({"--profile", "{}"})), HasSubstr("key 'protocol' not found"));
}

}  // namespace
}  // namespace tzmark::conformance
