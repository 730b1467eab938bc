//! The link with real children: the Python graph process, and shell scripts that misbehave.
//!
//! Needs the Python that CMake found (RASK_TEST_PYTHON in the environment); without it the tests of
//! the real graph process are skipped with a warning.
#include <unistd.h>
#include <uv.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/wire/message.h"
#include "protocol/wire/writer.h"
#include "scheduler/frontend/graph_link.h"

namespace {

using namespace scheduler;  // NOLINT
using protocol::Payload;
using protocol::Slice;

struct Heard {
  bool opened = false;
  bool committed = false;
  std::vector<Key> keys;
  std::size_t records = 0;
  std::vector<std::string> pickles;
  std::string error;
};

class World final : public GraphLink::Sink {
 public:
  explicit World(GraphLink::Options options) {
    uv_loop_init(&loop_);
    uv_timer_init(&loop_, &deadline_);
    deadline_.data = this;
    link_.emplace(&loop_, std::move(options), *this);
  }
  ~World() override {
    link_.reset();
    uv_close(reinterpret_cast<uv_handle_t*>(&deadline_), nullptr);
    uv_run(&loop_, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop_) == 0);
  }

  GraphLink& link() { return *link_; }
  std::map<std::uint32_t, Heard> heard;
  std::vector<std::string> log;
  std::vector<Key> asked;
  std::map<UploadId, std::string> loaded;  //!< the name it was taken under, or why it was not
  int hellos = 0;

  //! Runs the loop until `done`; false when 60 s have passed.
  template <class Condition>
  bool run_until(Condition done) {
    expired_ = false;
    uv_timer_start(&deadline_, [](uv_timer_t* t) { static_cast<World*>(t->data)->expired_ = true; },
                   60'000, 0);
    while (!done() && !expired_) uv_run(&loop_, UV_RUN_ONCE);
    uv_timer_stop(&deadline_);
    return !expired_;
  }
  bool run_until_loaded(UploadId id) {
    return run_until([&] { return loaded.count(id) == 1; });
  }
  bool run_until_ended(std::uint32_t id) {
    return run_until([&] { return heard[id].committed || !heard[id].error.empty(); });
  }
  void run_for(std::uint64_t ms) {
    const std::uint64_t end = uv_hrtime() + ms * 1'000'000;
    run_until([&] { return uv_hrtime() > end; });
  }

  void submit(std::uint32_t id, std::uint32_t client, const std::string& pickle,
              std::vector<std::string> wanted = {"x"}) {
    protocol::MessageWriter header;
    header.map(3);
    header.field("serializer");
    header.str("pickle");
    header.field("writeable");
    header.array(0);
    header.field("num-sub-frames");
    header.uinteger(1);
    auto expr = std::make_shared<Payload>();
    expr->kind = Payload::Kind::serialized;
    expr->header = header.take_payload()->header;
    expr->frames.push_back(Slice::copy_of(pickle));
    protocol::MessageWriter keys;
    keys.array(static_cast<std::uint32_t>(wanted.size()));
    for (const std::string& key : wanted) keys.str(key);
    const auto packed = keys.take_payload();
    link_->submit({SubmissionId(id), ClientId(client), expr, nullptr, nullptr, true,
                   packed->header, {}, {}});
  }

  void on_hello(ByteView) override { ++hellos; }
  std::vector<std::uint32_t> on_homes(SubmissionId, std::span<const KeyView> keys) override {
    for (KeyView key : keys) asked.push_back(Key{std::string(key.bytes)});
    return std::vector<std::uint32_t>(keys.size(), 7);
  }
  void on_open(SubmissionId id, bool, std::optional<std::uint64_t>,
               std::optional<double>) override {
    heard[id.value].opened = true;
  }
  void on_keys(SubmissionId id, std::span<const KeyView> keys, bool outside) override {
    if (outside) return;
    for (KeyView key : keys) heard[id.value].keys.push_back(Key{std::string(key.bytes)});
  }
  void on_records(SubmissionId id, std::vector<GraphTask> tasks) override {
    heard[id.value].records += tasks.size();
    for (const GraphTask& task : tasks) {
      heard[id.value].pickles.push_back(std::string(task.spec.get().own.view()) +
                                        std::string(task.spec.get().tail.view()));
    }
  }
  void on_barriers(SubmissionId, std::vector<GraphBarrier>) override {}
  void on_commit(SubmissionId id) override { heard[id.value].committed = true; }
  void on_error(SubmissionId id, GraphError error) override {
    heard[id.value].error = error.exception_text.empty() ? "?" : error.exception_text;
  }
  void on_loaded(UploadId id, std::string_view name) override { loaded[id] = name; }
  void on_load_error(UploadId id, GraphError error) override { loaded[id] = error.exception_text; }
  void on_log(std::string_view line) override { log.emplace_back(line); }

 private:
  uv_loop_t loop_;
  uv_timer_t deadline_;
  bool expired_ = false;
  std::optional<GraphLink> link_;
};

using namespace std::string_literals;  // NOLINT

const std::string kProto = "\x80\x02"s;
//! LLGExpr({"x": (operator.neg, 1)}), by hand.
const std::string kGraph =
    "cdask._expr\nLLGExpr\n}(X\x01\x00\x00\x00xc_operator\nneg\nK\x01\x86u\x85R."s;

const std::string kSleep = "ctime\nsleep\nM\x10\x27\x85R."s;

GraphLink::Options real_graph_process() {
  GraphLink::Options options;
  options.python = std::getenv("RASK_TEST_PYTHON");
  options.processes_max = 2;
  options.drop_grace_ms = 50;
  return options;
}

bool have_python() {
  if (std::getenv("RASK_TEST_PYTHON") != nullptr) return true;
  WARN("RASK_TEST_PYTHON is not set: skipped");
  return false;
}

GraphLink::Options shell_script(const std::string& script) {
  GraphLink::Options options;
  options.python = "/bin/sh";
  options.arguments = {"-c", script};
  options.processes_max = 1;
  return options;
}

//! The bytes of a message, for printf.
std::string octal(const protocol::OutMessage& message) {
  std::string text;
  for (const Slice& piece : message.pieces) {
    for (const unsigned char c : piece.view()) {
      char digits[8];
      std::snprintf(digits, sizeof(digits), "\\%03o", c);
      text += digits;
    }
  }
  return text;
}

std::string hello() {
  protocol::MessageWriter writer;
  writer.map(2);
  writer.field("op");
  writer.str("hello");
  writer.field("versions");
  writer.map(0);
  return octal(writer.finish());
}

}  // namespace

TEST_CASE("a graph is read, packed and committed by the graph process", "[frontend][python]") {
  if (!have_python()) return;
  World world(real_graph_process());
  world.submit(7, 1, kProto + kGraph);
  REQUIRE(world.run_until_ended(7));
  const Heard& heard = world.heard[7];
  CHECK(heard.error == "");
  CHECK(heard.committed);
  CHECK(heard.keys == std::vector<Key>{protocol::string_key("x")});
  REQUIRE(heard.records == 1);
  CHECK(heard.pickles[0].find("neg") != std::string::npos);
}

TEST_CASE("user code that raises, aborts or prints harms only its own submission",
          "[frontend][python]") {
  if (!have_python()) return;
  World world(real_graph_process());
  world.submit(1, 1, kProto + "cbuiltins\nint\nX\x03\x00\x00\x00" "abc\x85R."s);
  world.submit(2, 1, kProto + "cos\nabort\n)R."s);
  world.submit(3, 1, kProto + kGraph);
  world.submit(4, 2, kProto + "cbuiltins\nprint\nc_operator\nmul\nX\x02\x00\x00\x00y\nJ\x00\xe1\xf5\x01"
                              "\x86R\x85R0"s + kGraph);
  for (std::uint32_t id : {1, 2, 3, 4}) REQUIRE(world.run_until_ended(id));
  CHECK(world.heard[1].error.find("RuntimeError") == 0);
  CHECK(world.heard[2].error.find("signal 6") != std::string::npos);
  CHECK(world.heard[3].committed);
  CHECK(world.heard[4].committed);
}

TEST_CASE("a client that leaves frees the child that is stuck in its graph", "[frontend][python]") {
  if (!have_python()) return;
  GraphLink::Options options = real_graph_process();
  options.processes_max = 1;
  World world(std::move(options));
  world.submit(1, 1, kProto + "cos\nwrite\nK\x02" "C\x06" "begun\n\x86R0" + kSleep);
  REQUIRE(world.run_until([&] {
    return !world.log.empty() && world.log.back().find("begun") != std::string::npos;
  }));
  world.submit(2, 1, kProto + kGraph);
  world.link().drop(SubmissionId(1));
  REQUIRE(world.run_until_ended(2));
  CHECK(world.heard[2].committed);
  CHECK(world.heard.count(1) == 0);
  CHECK(world.hellos == 2);
}

TEST_CASE("another client does not wait for an endless graph", "[frontend][python]") {
  if (!have_python()) return;
  World world(real_graph_process());
  world.submit(1, 1, kProto + kSleep);
  world.submit(2, 2, kProto + kGraph);
  REQUIRE(world.run_until_ended(2));
  CHECK(world.heard[2].committed);
  CHECK(world.hellos == 2);
}

TEST_CASE("a client alone gets no second child, until another one waits", "[frontend][python]") {
  if (!have_python()) return;
  GraphLink::Options options = real_graph_process();
  options.busy_ms = 0;
  options.clients = [] { return 1; };
  World world(std::move(options));
  const std::string tell = kProto + "cos\nwrite\nK\x02" "C\x06" "begun\n\x86R0";
  for (std::uint32_t id = 1; id <= 20; ++id) world.submit(id, 1, kProto + kGraph);
  REQUIRE(world.run_until_ended(20));
  CHECK(world.hellos == 1);
  world.submit(21, 1, tell + kSleep);
  REQUIRE(world.run_until([&] {
    return !world.log.empty() && world.log.back().find("begun") != std::string::npos;
  }));
  world.submit(22, 2, kProto + kGraph);
  REQUIRE(world.run_until_ended(22));
  CHECK(world.heard[22].committed);
  CHECK(world.hellos == 2);
}

TEST_CASE("a large graph travels as a memfd", "[frontend][python]") {
  if (!have_python()) return;
  World world(real_graph_process());
  // An unused string of 3 MB in front of the graph.
  const std::string filler(3'000'000, 'z');
  world.submit(1, 1, kProto + "X\xc0\xc6\x2d\x00"s + filler + "0" + kGraph);
  REQUIRE(world.run_until_ended(1));
  CHECK(world.heard[1].error == "");
  CHECK(world.heard[1].committed);
}

TEST_CASE("a child that cannot start fails submissions instead of keeping them", "[frontend]") {
  World world(shell_script("echo no such module >&2; exit 3"));
  world.submit(1, 1, kProto + kGraph);
  REQUIRE(world.run_until_ended(1));
  CHECK(world.heard[1].error.find("exit code 3") != std::string::npos);
  CHECK(world.heard[1].error.find("no such module") != std::string::npos);
}

TEST_CASE("an interpreter that does not exist fails submissions", "[frontend]") {
  GraphLink::Options options;
  options.python = "/no/such/python";
  World world(std::move(options));
  world.submit(1, 1, kProto + kGraph);
  REQUIRE(world.run_until_ended(1));
  CHECK(world.heard[1].error.find("/no/such/python") != std::string::npos);
}

TEST_CASE("a child that sends garbage is ended and its submission errs", "[frontend][hostile][X16]") {
  protocol::MessageWriter lie;
  lie.map(5);
  lie.field("op");
  lie.str("records");
  lie.field("id");
  lie.uinteger(1);
  lie.field("first");
  lie.uinteger(0);
  lie.field("n");
  lie.uinteger(1'000'000'000);
  lie.field("tail");
  lie.nil();
  const std::string garbage = "\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377";
  for (const std::string& words : {octal(lie.finish()), garbage}) {
    World world(shell_script("printf '" + hello() + "' >&3; head -c 1 <&3 >/dev/null; printf '" +
                             words + "' >&3; sleep 1000"));
    world.submit(1, 1, kProto + kGraph);
    REQUIRE(world.run_until_ended(1));
    CHECK(world.heard[1].error.find("died") != std::string::npos);
  }
}

namespace {

std::string homes_question(std::uint32_t id, std::string_view keys) {
  protocol::MessageWriter question;
  question.map(2);
  question.field("op");
  question.str("homes");
  question.field("id");
  question.uinteger(id);
  question.attach(Slice::copy_of(keys));
  return octal(question.finish());
}

}  // namespace

TEST_CASE("a child that asks where blocks are is answered once", "[frontend]") {
  const std::string asks = homes_question(1, "\x92\xa1x\xa1y");
  // It copies everything it is told to a file, so that the answer can be looked at.
  const std::string heard = "/tmp/rask-homes-" + std::to_string(getpid());
  World world(shell_script("printf '" + hello() + "' >&3; head -c 1 <&3 >/dev/null; printf '" + asks +
                           "' >&3; cat <&3 >" + heard));
  world.submit(1, 1, kProto + kGraph);
  std::string told;
  REQUIRE(world.run_until([&] {
    std::ifstream file(heard, std::ios::binary);
    told.assign(std::istreambuf_iterator<char>(file), {});
    return told.find("homes") != std::string::npos;
  }));
  REQUIRE(world.asked.size() == 2);
  CHECK(world.asked[0].bytes == "\xa1x");
  CHECK(told.find("\x07\x00\x00\x00\x07\x00\x00\x00"s) != std::string::npos);
  std::remove(heard.c_str());
}

TEST_CASE("questions that break the format end the child", "[frontend][hostile][X16]") {
  const std::string good = homes_question(1, "\x91\xa1x");
  const std::string bad[] = {homes_question(1, "\xdd\xff\xff\xff\xff"), homes_question(1, "\xa1x"),
                             homes_question(1, "\x91\xc0"), homes_question(2, "\x91\xa1x"), good + good};
  for (const std::string& words : bad) {
    World world(shell_script("printf '" + hello() + "' >&3; head -c 1 <&3 >/dev/null; printf '" +
                             words + "' >&3; sleep 1000"));
    world.submit(1, 1, kProto + kGraph);
    REQUIRE(world.run_until_ended(1));
    CHECK(world.heard[1].error.find("died") != std::string::npos);
  }
}

namespace {

std::string text(std::string_view text) {
  return "X" + std::string(1, static_cast<char>(text.size())) + "\0\0\0"s + std::string(text);
}

//! What Client.upload_file registers with the scheduler, by hand.
Slice upload(const std::string& file, const std::string& source) {
  return Slice::copy_of(kProto + "cdistributed.diagnostics.plugin\nSchedulerUploadFile\n)\x81}(" +
                        text("filename") + text(file) + text("data") + "C" +
                        std::string(1, static_cast<char>(source.size())) + source + text("load") +
                        "\x88ub.");
}

//! A graph that can be opened where module `name` is.
std::string graph_naming(const std::string& name) {
  return kProto + "c" + name + "\nanswer\n0" + kGraph;
}

}  // namespace

TEST_CASE("an upload is there for later graphs, in later children too", "[frontend][python]") {
  if (!have_python()) return;
  GraphLink::Options options = real_graph_process();
  options.processes_max = 1;
  World world(std::move(options));
  world.submit(1, 1, graph_naming("brought_here"));
  REQUIRE(world.run_until_ended(1));
  CHECK(!world.heard[1].committed);
  world.link().load(7, upload("brought_here.py", "answer = 1\n"), nullptr);
  REQUIRE(world.run_until_loaded(7));
  CHECK(world.loaded[7] == "upload_file");
  world.submit(2, 1, graph_naming("brought_here"));
  world.submit(3, 1, kProto + "cos\nabort\n)R.");
  world.submit(4, 1, graph_naming("brought_here"));
  for (std::uint32_t id : {2, 3, 4}) REQUIRE(world.run_until_ended(id));
  CHECK(world.heard[2].committed);
  CHECK(world.heard[4].committed);
  CHECK(world.hellos == 2);

  world.link().forget(7);
  world.submit(5, 1, kProto + "cos\nabort\n)R.");
  world.submit(6, 1, graph_naming("brought_here"));
  REQUIRE(world.run_until_ended(6));
  CHECK(!world.heard[6].committed);
}

TEST_CASE("an upload that raises, dies or hangs harms nobody else", "[frontend][python]") {
  if (!have_python()) return;
  World world(real_graph_process());
  bool left = false;
  world.link().load(1, upload("raises.py", "1 / 0\n"), nullptr);
  world.link().load(2, upload("dies.py", "import os; os.abort()\n"), nullptr);
  world.link().load(3, Slice::copy_of(kProto + "cbuiltins\nint\n)R."), nullptr);
  world.link().load(4, upload("hangs.py", "import time; time.sleep(1e6)\n"), [&] { return left; });
  world.link().load(5, upload("fine.py", "answer = 1\n"), nullptr);
  for (UploadId id : {1, 2, 3}) REQUIRE(world.run_until_loaded(id));
  CHECK(world.loaded[1] == "ZeroDivisionError('division by zero')");
  CHECK(world.loaded[2].find("signal 6") != std::string::npos);
  CHECK(world.loaded[3] == "AssertionError()");
  world.submit(1, 1, kProto + kGraph);  // in another child than the one that hangs
  REQUIRE(world.run_until_ended(1));
  CHECK(world.heard[1].committed);
  left = true;
  REQUIRE(world.run_until_loaded(5));
  CHECK(world.loaded[4].find("signal 9") != std::string::npos);
  CHECK(world.loaded[5] == "upload_file");
  world.submit(2, 1, graph_naming("fine"));
  world.submit(3, 2, graph_naming("fine"));
  for (std::uint32_t id : {2, 3}) REQUIRE(world.run_until_ended(id));
  CHECK((world.heard[2].committed && world.heard[3].committed));
}

TEST_CASE("an upload fails when no child can start", "[frontend]") {
  World world(shell_script("echo no such module >&2; exit 3"));
  world.link().load(1, Slice::copy_of(kProto), nullptr);
  REQUIRE(world.run_until_loaded(1));
  CHECK(world.loaded[1].find("no such module") != std::string::npos);
}
