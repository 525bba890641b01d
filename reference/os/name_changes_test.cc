// Several names that change together: all or none, whichever call fails, also on file systems that lack some calls.
#include "os/name_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <new>

#include "bytes/cursor.h"
#include "os/atomic_file.h"
#include "testing/caught.h"
#include "testing/faults/system_faults.h"
#include "testing/files/test_directory.h"

namespace tzmark {
namespace {

using test::caught;
using test::RefusedCall;
using ::testing::HasSubstr;
using Existing = AtomicFile::Existing;
using Texts = std::map<std::string, std::string>;

// Replaces a and b, adds c, has a second name for c meanwhile, removes d.
class NameChangesTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kCallsMax = 100;

  const Texts before_ = {{"a", "old a"}, {"b", "old b"}, {"d", "old d"}};
  const Texts after_ = {{"a", "new a"}, {"b", "new b"}, {"c", "new c"}};

  static void fill(const test::TestDirectory& room, const Texts& texts) {
    for (const auto& [name, text] : texts) test::write_whole(room / name, as_bytes(text));
  }

  static Texts texts_in(const test::TestDirectory& room) {
    Texts texts;
    for (const std::string& name : room.entries()) {
      const auto bytes = test::read_whole(room / name);
      texts[name] = as_text(bytes);
    }
    return texts;
  }

  static void change(const test::TestDirectory& room, Existing existing = Existing::kReplace) {
    const auto directory = std::make_shared<const Directory>(room.name());
    AtomicFileIn a(directory, room / "a", "auto", existing), b(directory, room / "b", "auto", existing),
        c(directory, room / "c", "auto", existing);
    for (auto [file, text] : {std::pair(&a, "new a"), std::pair(&b, "new b"), std::pair(&c, "new c")}) {
      file->file().write_at(0, as_bytes(std::string_view(text)));
      file->finish();
    }
    change_names(directory, [&](NameChanges& changes) {
      changes.link(c, "second");
      changes.place(c);
      changes.place(a);
      changes.sync();
      changes.remove_at_end("d");
      changes.commit(b);
    });
  }
};

TEST_F(NameChangesTest, AllOrNoneWhicheverCallFails) {
  std::size_t old_count = 0, new_count = 0;
  for (std::uint64_t call = 0;; ++call) {
    ASSERT_LT(call, kCallsMax);
    const test::TestDirectory room;
    fill(room, before_);
    bool is_met = false;
    test::Caught result;
    {
      const test::SystemFault fault(test::Fault::kError, call);
      result = caught([&] { change(room); });
      is_met = fault.is_met();
    }
    if (!is_met) {
      EXPECT_EQ(result, test::Caught{});
      EXPECT_EQ(texts_in(room), after_);
      break;
    }
    EXPECT_NE(result, test::Caught{}) << call;
    if (const Texts texts = texts_in(room); texts == before_) {
      ++old_count;
    } else {
      // The new files are complete, and what they replaced may be there under other names.
      ++new_count;
      for (const auto& [name, text] : after_) EXPECT_EQ(texts.at(name), text) << call;
    }
  }
  EXPECT_GT(old_count, 5U);
  EXPECT_GT(new_count, 0U);
}

TEST_F(NameChangesTest, WithoutExchangeByALink) {
  for (const int error_number : {EINVAL, ENOSYS, EOPNOTSUPP}) {
    const RefusedCall no_exchange(RefusedCall::Call::kExchange, error_number);
    for (std::uint64_t call = 0;; ++call) {
      ASSERT_LT(call, kCallsMax);
      const test::TestDirectory room;
      fill(room, before_);
      const test::SystemFault fault(test::Fault::kError, call);
      const test::Caught result = caught([&] { change(room); });
      const Texts texts = texts_in(room);
      if (!fault.is_met()) {
        EXPECT_EQ(result, test::Caught{});
        EXPECT_EQ(texts, after_);
        break;
      }
      if (texts != before_) {
        for (const auto& [name, text] : after_) EXPECT_EQ(texts.count(name) == 0 ? "" : texts.at(name), text) << call;
      }
    }
  }
}

TEST_F(NameChangesTest, RefusesWhereOldFilesCouldBeLost) {
  const RefusedCall no_exchange(RefusedCall::Call::kExchange, EINVAL);
  const RefusedCall no_file_without_name(RefusedCall::Call::kOpenWithoutName, EOPNOTSUPP);
  const RefusedCall no_link(RefusedCall::Call::kLink, EPERM);
  const test::TestDirectory room;
  fill(room, before_);
  const auto directory = std::make_shared<const Directory>(room.name());
  {
    AtomicFileIn a(directory, room / "a", "auto", Existing::kReplace);
    EXPECT_FALSE(can_link(a));
    a.finish();
    EXPECT_EQ(caught([&] { change_names(directory, [&](NameChanges& changes) { changes.place(a); }); }).code,
              ErrorCode::kUnavailable);
  }
  EXPECT_EQ(texts_in(room), before_);
}

TEST_F(NameChangesTest, RefusesTakenNames) {
  const test::TestDirectory room;
  const auto directory = std::make_shared<const Directory>(room.name());
  {
    AtomicFileIn a(directory, room / "a", "auto", Existing::kRefuse),
        b(directory, room / "b", "auto", Existing::kRefuse);
    a.finish();
    b.finish();
    fill(room, {{"b", "of another process"}});
    EXPECT_EQ(caught([&] {
                change_names(directory, [&](NameChanges& changes) {
                  changes.place(a);
                  changes.commit(b);
                });
              }).code,
              ErrorCode::kWriteFailed);
  }
  EXPECT_EQ(texts_in(room), (Texts{{"b", "of another process"}}));
}

TEST_F(NameChangesTest, PutsBackWhatIsNoFile) {
  for (const bool is_directory : {true, false}) {
    for (const bool exchanges : {true, false}) {
      const RefusedCall no_exchange(exchanges ? RefusedCall::Call::kDontcache : RefusedCall::Call::kExchange, EINVAL);
      for (const bool is_last : {true, false}) {
        const test::TestDirectory room;
        const auto directory = std::make_shared<const Directory>(room.name());
        {
          AtomicFileIn a(directory, room / "a", "auto", Existing::kReplace);
          a.finish();
          ASSERT_EQ(is_directory ? ::mkdir((room / "a").c_str(), 0700) : ::mkfifo((room / "a").c_str(), 0600), 0);
          EXPECT_EQ(caught([&] {
                      change_names(directory,
                                   [&](NameChanges& changes) { is_last ? changes.commit(a) : changes.place(a); });
                    }).code,
                    ErrorCode::kWriteFailed);
        }
        EXPECT_EQ(std::filesystem::symlink_status(room / "a").type(),
                  is_directory ? std::filesystem::file_type::directory : std::filesystem::file_type::fifo);
        EXPECT_THAT(room.entries(), ::testing::ElementsAre("a"));
      }
    }
  }
}

TEST_F(NameChangesTest, AreTakenBackOutOfMemory) {
  const test::TestDirectory room;
  fill(room, before_);
  const auto directory = std::make_shared<const Directory>(room.name());
  {
    AtomicFileIn a(directory, room / "a", "auto", Existing::kReplace),
        c(directory, room / "c", "auto", Existing::kReplace);
    a.finish();
    c.finish();
    EXPECT_THROW(change_names(directory,
                              [&](NameChanges& changes) {
                                changes.place(a);
                                changes.place(c);
                                throw std::bad_alloc();
                              }),
                 std::bad_alloc);
  }
  EXPECT_EQ(texts_in(room), before_);
}

TEST_F(NameChangesTest, FindsOutWhatCanReplace) {
  const RefusedCall no_file_without_name(RefusedCall::Call::kOpenWithoutName, EOPNOTSUPP);
  const RefusedCall no_link(RefusedCall::Call::kLink, EPERM);
  const test::TestDirectory room;
  fill(room, before_);
  const auto directory = std::make_shared<const Directory>(room.name());
  const AtomicFileIn a(directory, room / "a", "auto", Existing::kReplace),
      c(directory, room / "c", "auto", Existing::kReplace);
  const auto names = room.entries();
  EXPECT_TRUE(NameChanges::can_replace(a, c));
  const RefusedCall no_exchange(RefusedCall::Call::kExchange, EINVAL);
  EXPECT_FALSE(NameChanges::can_replace(a, c));
  // Nothing has its name.
  EXPECT_TRUE(NameChanges::can_replace(c, a));
  EXPECT_EQ(room.entries(), names);
}

// What a child process leaves that a signal ends.
class SignalTest : public ::testing::Test {
 protected:
  // Runs action in a child, which then waits. Returns how it ended.
  template <typename Action>
  static int end_of_child(int number, Action&& action) {
    const pid_t child = ::fork();
    if (child == 0) {
      const rlimit no_core{};
      ::setrlimit(RLIMIT_CORE, &no_core);
      remove_temporary_files_at_signals();
      try {
        action([number] { static_cast<void>(::raise(number)); });
      } catch (...) {
        ::_exit(3);
      }
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
  }

  const test::TestDirectory room_;
};

TEST_F(SignalTest, RemovesTemporaryFiles) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU}) {
    const int end = end_of_child(number, [&](const auto& signal) {
      const RefusedCall no_file_without_name(RefusedCall::Call::kOpenWithoutName, EOPNOTSUPP);
      const AtomicFile one(room_ / "one"), other(room_ / "other");
      if (room_.entries().size() == 2) signal();
    });
    EXPECT_EQ(end, number);
    EXPECT_THAT(room_.entries(), ::testing::IsEmpty());
  }
}

TEST_F(SignalTest, OutlivesTheLimitOfFileSizes) {
  const int end = end_of_child(SIGXFSZ, [&](const auto& signal) {
    signal();
    const rlimit limit{64, 64};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    AtomicFile file(room_ / "one");
    try {
      file.file().write_at(0, as_bytes(std::string(65, 'x')));
    } catch (const Error& error) {
      const bool names_it = error.message().find("at most 64 bytes (ulimit -f") != std::string::npos;
      ::_exit(names_it ? 5 : 6);
    }
  });
  EXPECT_EQ(end, -5);
}

TEST_F(SignalTest, WaitsForTheEndOfAChange) {
  test::write_whole(room_ / "a", as_bytes(std::string_view("old")));
  const int end = end_of_child(SIGTERM, [&](const auto& signal) {
    const auto directory = std::make_shared<const Directory>(room_.name());
    AtomicFileIn a(directory, room_ / "a", "auto", Existing::kReplace),
        b(directory, room_ / "b", "auto", Existing::kReplace);
    a.file().write_at(0, as_bytes(std::string_view("new")));
    a.finish();
    b.finish();
    change_names(directory, [&](NameChanges& changes) {
      changes.place(a);
      signal();
      changes.commit(b);
    });
    ::_exit(4);
  });
  EXPECT_EQ(end, SIGTERM);
  EXPECT_THAT(room_.entries(), ::testing::ElementsAre("a", "b"));
  const auto bytes = test::read_whole(room_ / "a");
  EXPECT_EQ(as_text(bytes), "new");
}

TEST_F(SignalTest, NoHandlerInterruptsAnother) {
  const int end = end_of_child(SIGTERM, [&](const auto&) {
    struct sigaction action {};
    for (const int handled : {SIGTERM, SIGPIPE}) {
      ::sigaction(handled, nullptr, &action);
      for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU}) {
        if (::sigismember(&action.sa_mask, number) != 1) ::_exit(4);
      }
    }
  });
  EXPECT_EQ(end, 0);
}

TEST_F(SignalTest, IgnoredSignalsStayIgnored) {
  const int end = end_of_child(SIGHUP, [&](const auto& signal) {
    static_cast<void>(std::signal(SIGHUP, SIG_IGN));
    remove_temporary_files_at_signals();
    signal();
  });
  EXPECT_EQ(end, 0);
}

}  // namespace
}  // namespace tzmark
