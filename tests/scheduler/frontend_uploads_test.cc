//! Which graph process loads what, and when it may have graphs.
#include <catch2/catch.hpp>
#include <string>

#include "scheduler/frontend/uploads.h"

namespace {

using namespace scheduler;  // NOLINT

void add(Uploads& uploads, UploadId id) { uploads.add({id, {}, nullptr}); }

//! What the child loads now; "" if nothing.
std::string next(Uploads& uploads, ChildId child) {
  const Upload* upload = uploads.next(child);
  return upload == nullptr ? "" : std::to_string(upload->id);
}

}  // namespace

TEST_CASE("one child tries an upload, the others load it before their next graph", "[frontend]") {
  Uploads uploads;
  for (ChildId child : {0, 1}) uploads.add_child(child);
  add(uploads, 5);
  CHECK((uploads.keeps(0) && uploads.keeps(1)));  // whoever is free first takes the trial
  CHECK(next(uploads, 1) == "5");
  CHECK(uploads.keeps(1));
  CHECK(!uploads.keeps(0));
  CHECK(next(uploads, 0) == "");
  CHECK(uploads.finish(1, true));
  CHECK(!uploads.keeps(1));
  CHECK(uploads.keeps(0));
  CHECK(next(uploads, 0) == "5");
  CHECK(!uploads.finish(0, true));
  CHECK(!uploads.keeps(0));
}

TEST_CASE("trials come one after the other, so that all load in one order", "[frontend]") {
  Uploads uploads;
  for (ChildId child : {0, 1}) uploads.add_child(child);
  add(uploads, 5);
  add(uploads, 6);
  CHECK(next(uploads, 0) == "5");
  CHECK(next(uploads, 1) == "");
  uploads.finish(0, true);
  CHECK(next(uploads, 1) == "5");
  uploads.finish(1, true);
  CHECK(next(uploads, 1) == "6");
  uploads.finish(1, true);
  CHECK(next(uploads, 0) == "6");
  uploads.add_child(2);
  CHECK(next(uploads, 2) == "5");
  uploads.finish(2, false);  // fails here only: not tried again
  CHECK(next(uploads, 2) == "6");
}

TEST_CASE("what failed its trial or was forgotten is loaded by nobody", "[frontend]") {
  Uploads uploads;
  uploads.add_child(0);
  for (UploadId id : {5, 6, 7}) add(uploads, id);
  CHECK(next(uploads, 0) == "5");
  CHECK(uploads.finish(0, false));
  CHECK(next(uploads, 0) == "6");
  uploads.finish(0, true);
  uploads.forget(6);
  CHECK(next(uploads, 0) == "7");
  uploads.finish(0, true);
  uploads.add_child(1);
  CHECK(next(uploads, 1) == "7");
  uploads.forget(7);  // while it is being loaded
  CHECK(uploads.keeps(1));
  CHECK(!uploads.finish(1, true));
  CHECK(!uploads.keeps(1));
}

TEST_CASE("an upload that keeps ending children is forgotten", "[frontend]") {
  Uploads uploads;
  uploads.add_child(0);
  add(uploads, 5);
  next(uploads, 0);
  uploads.finish(0, true);
  CHECK(!uploads.remove_child(0));
  for (ChildId child : {1, 2, 3}) {
    uploads.add_child(child);
    CHECK(next(uploads, child) == "5");
    const auto loss = uploads.remove_child(child);
    REQUIRE(loss);
    CHECK(!loss->trial);
    CHECK(loss->forgotten == (child == Uploads::kDeathsMax));
  }
  uploads.add_child(4);
  CHECK(next(uploads, 4) == "");
}

TEST_CASE("a child that dies of a trial takes it along", "[frontend]") {
  Uploads uploads;
  uploads.add_child(0);
  bool left = false;
  uploads.add({5, {}, [&] { return left; }});
  CHECK(!uploads.abandoned());
  next(uploads, 0);
  CHECK(!uploads.abandoned());
  left = true;
  CHECK(uploads.abandoned() == ChildId{0});
  const auto loss = uploads.remove_child(0);
  REQUIRE(loss);
  CHECK((loss->id == 5 && loss->trial));
  uploads.add_child(1);
  CHECK(next(uploads, 1) == "");
}
