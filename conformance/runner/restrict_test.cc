// Tests of the restriction of programs: what one may do by its permissions, and which variables it gets.
#include "runner/restrict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "runner/errors.h"
#include "runner/process.h"
#include "runner/scratch_directory.h"
#include "testing/test_environment.h"

namespace tzmark::conformance {
namespace {

ProcessResult contained(const std::string& script, const Containment& containment) {
  return run_process({"/bin/sh", "-c", script}, {}, kNotCancelled, nullptr, &containment);
}

TEST(Restrict, VariablesAreThoseOfAList) {
  for (const char* name : {"PATH", "HOME", "LC_ALL", "PYTHONPATH", "LD_LIBRARY_PATH", "TZMARK_IO", "no_proxy"}) {
    EXPECT_TRUE(passes_variable(name)) << name;
  }
  for (const char* name : {"SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS",
                           "CARGO_REGISTRY_TOKEN", "DBUS_SESSION_BUS_ADDRESS", "PATHX", ""}) {
    EXPECT_FALSE(passes_variable(name)) << name;
  }
}

// A program without containment does what the same program may not with it.
TEST(Restrict, WritesStayInItsOwnDirectories) {
  const ScratchDirectory elsewhere;
  const std::string write = "echo x > " + (elsewhere.path() / "file").string();
  EXPECT_EQ(run_process({"/bin/sh", "-c", write}, {}, kNotCancelled).exit_status, 0);
  if (containment_gaps({}).empty()) {
    EXPECT_NE(contained(write, {}).exit_status, 0);
  }
  EXPECT_EQ(contained(write, {.permissions = {.writable = {elsewhere.path()}}}).exit_status, 0);
  EXPECT_EQ(contained(write, {.permissions = {.writable = {elsewhere.path() / "file"}}}).exit_status, 0);
  const ScratchDirectory own(ScratchDirectory::Place::kCaseRoot);
  EXPECT_EQ(contained("echo x > " + (own.path() / "file").string(), {}).exit_status, 0);
  EXPECT_EQ(contained("echo x > \"$TMPDIR/file\" && echo x > /dev/null", {}).exit_status, 0);
}

TEST(Restrict, PermissionsAreForWhatExists) {
  EXPECT_THROW(contained("true", {.permissions = {.writable = {"/nonexistent"}}}), EnvironmentError);
}

TEST(Restrict, GapsNameThePermissions) {
  const std::size_t of_kernel = containment_gaps({}).size();
  EXPECT_EQ(containment_gaps({.writable = {"/a", "/b"}, .network = true}).size(), of_kernel + 3);
}

}  // namespace
}  // namespace tzmark::conformance
