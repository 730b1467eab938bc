//! Which graph process takes which submission.
#include <catch2/catch.hpp>
#include <memory>

#include "scheduler/frontend/submissions.h"

namespace {

using namespace scheduler;  // NOLINT

void add(Submissions& submissions, std::uint32_t id, std::uint32_t client) {
  auto submission = std::make_unique<GraphSubmission>();
  submission->id = SubmissionId(id);
  submission->client = ClientId(client);
  submissions.add(std::move(submission));
}

//! "child:submission", or "" if nothing can go anywhere.
std::string assigned(Submissions& submissions, bool may_grow = true) {
  const auto assignment = submissions.assign(may_grow);
  if (!assignment) return "";
  return std::to_string(assignment->child) + ":" + std::to_string(assignment->submission->id.value);
}

}  // namespace

TEST_CASE("a client stays with its child while it has submissions there", "[frontend]") {
  Submissions submissions;
  submissions.add_child(0);
  submissions.add_child(1);
  add(submissions, 1, 7);
  add(submissions, 2, 7);
  CHECK(assigned(submissions) == "0:1");
  CHECK(assigned(submissions) == "0:2");
  CHECK(assigned(submissions) == "");
  submissions.finish_current(0);
  add(submissions, 3, 7);
  CHECK(assigned(submissions) == "0:3");
}

TEST_CASE("another client waits for an idle child instead of standing behind", "[frontend]") {
  Submissions submissions;
  submissions.add_child(0);
  add(submissions, 1, 7);
  add(submissions, 2, 8);
  CHECK(assigned(submissions) == "0:1");
  CHECK(assigned(submissions) == "");
  CHECK(submissions.waiting());
  submissions.add_child(1);
  CHECK(assigned(submissions) == "1:2");
}

TEST_CASE("a busy client stands back for those who wait when no child can be added", "[frontend]") {
  Submissions submissions;
  submissions.add_child(0);
  add(submissions, 1, 7);
  CHECK(assigned(submissions) == "0:1");
  add(submissions, 2, 8);
  add(submissions, 3, 7);
  CHECK(assigned(submissions, false) == "");
  submissions.finish_current(0);
  CHECK(assigned(submissions, false) == "0:2");
  submissions.finish_current(0);
  CHECK(assigned(submissions, false) == "0:3");
}

TEST_CASE("at most a few submissions of a client are on their way", "[frontend]") {
  Submissions submissions;
  submissions.add_child(0);
  for (std::uint32_t i = 0; i < 20; ++i) add(submissions, i, 7);
  for (std::size_t i = 0; i < Submissions::kPipelined; ++i) CHECK(assigned(submissions) != "");
  CHECK(assigned(submissions) == "");
  submissions.finish_current(0);
  CHECK(assigned(submissions) == "0:" + std::to_string(Submissions::kPipelined));
}

TEST_CASE("what a dead child had not begun goes to another, in order", "[frontend]") {
  Submissions submissions;
  submissions.add_child(0);
  for (std::uint32_t i = 1; i <= 4; ++i) add(submissions, i, 7);
  for (int i = 0; i < 3; ++i) assigned(submissions);
  Submissions::Held held = submissions.remove_child(0);
  REQUIRE(held.size() == 3);
  CHECK(held.front()->id == SubmissionId(1));
  held.pop_front();
  submissions.put_back(std::move(held));
  submissions.add_child(1);
  CHECK(assigned(submissions) == "1:2");
  CHECK(assigned(submissions) == "1:3");
  CHECK(assigned(submissions) == "1:4");
}

TEST_CASE("dropping tells where the submission was", "[frontend]") {
  Submissions submissions;
  submissions.add_child(0);
  for (std::uint32_t i = 1; i <= 2; ++i) add(submissions, i, 7);
  assigned(submissions);
  assigned(submissions);
  add(submissions, 3, 8);
  using Where = Submissions::Where;
  CHECK(submissions.drop(SubmissionId(1)).first == Where::current);
  CHECK(submissions.drop(SubmissionId(2)).first == Where::sent);
  CHECK(submissions.drop(SubmissionId(3)).first == Where::waiting);
  CHECK(submissions.drop(SubmissionId(3)).first == Where::nowhere);
  CHECK_FALSE(submissions.waiting());
  CHECK(submissions.current(0)->dropped);
}
