#include "tests/worker/fake_scheduler.h"

#include <catch2/catch.hpp>

namespace worker {

using namespace protocol;

namespace {

template <class T>
OutMessage message_of(const T& what) {
  MessageWriter writer;
  write(writer, what);
  return writer.finish();
}

}  // namespace

FakeScheduler::FakeScheduler() : pool_(loop_, {}) {
  Listener::Options options;
  options.host = "127.0.0.1";
  auto opened = Listener::open(
      loop_, options, [this](Ref connection, const Hello&) { spawn(serve(std::move(connection))); },
      [](const Address&, const Error&) {});
  REQUIRE(opened);
  listener_ = std::move(*opened);
  address_ = listener_->address().text();
  thread_ = std::thread([this] { loop_.run(); });
}

FakeScheduler::~FakeScheduler() {
  loop_.post([this] {
    stream_.detach();
    pool_.close();
    listener_.reset();
    const std::vector<Ref> open(connections_.begin(), connections_.end());
    for (const Ref& connection : open) connection->abort({Fault::closed, "end of test"});
    loop_.defer([this] { loop_.defer([this] { loop_.stop(); }); });
  });
  thread_.join();
}

Async<void> FakeScheduler::serve(Ref connection) {
  connections_.insert(connection);
  while (true) {
    Result<Frames> frames = co_await connection->read();
    if (!frames) break;
    Message message;
    if (!message.reset(std::move(*frames))) break;
    if (message.root().is_map()) {
      on_call(connection, message);
    } else {
      for (const Value op : message.root().elements()) on_op(message, op);
    }
  }
  if (stream_.connection() == connection) stream_.detach();
  connections_.erase(connection);
}

void FakeScheduler::on_call(const Ref& connection, const Message& message) {
  const Value op = message.root().find("op");
  if (op.equals("register-worker")) {
    connection->send(message_of(RegisterWorkerReply{true, {}, loop_.now().wall, 0.05, {}, {}}));
    stream_.attach(connection);
  } else if (op.equals("heartbeat_worker")) {
    connection->send(message_of(HeartbeatReply{false, loop_.now().wall, 0.05}));
    note([this] { ++heartbeats_; });
  }
}

void FakeScheduler::on_op(const Message& message, Value op) {
  if (op.find("op").equals("rask-finished")) {  // it has greeted us as one of its own
    protocol::DenseFinished dense;
    if (read(message, op, dense)) {
      note([&] { finished_.insert(std::string(dense.key.bytes)); });
    }
  }
  if (!op.find("op").equals("task-finished")) return;
  TaskFinished finished;
  if (read(message, op, finished)) {
    note([&] { finished_.insert(std::string(finished.key.bytes)); });
  }
}

void FakeScheduler::compute(std::string key, std::vector<std::string> dependencies,
                            std::string worker) {
  loop_.post([this, key = std::move(key), needed = std::move(dependencies), worker] {
    const Key own = string_key(key);
    std::vector<Key> keys;
    for (const std::string& name : needed) keys.push_back(string_key(name));
    protocol::ComputeTask message;
    message.key = own;
    message.run_id = runs_++;
    message.priority = {0, static_cast<double>(runs_)};
    for (const Key& dependency : keys) {
      message.dependencies.add_key(dependency, 8);
      message.dependencies.add_address(worker);
    }
    message.run_spec = str_payload("spec");
    message.stimulus_id = "test";
    write(stream_.op(), message);
  });
}

void FakeScheduler::free_keys(std::vector<std::string> names) {
  loop_.post([this, names = std::move(names)] {
    std::vector<Key> keys;
    for (const std::string& name : names) keys.push_back(string_key(name));
    protocol::FreeKeys message;
    for (const Key& key : keys) message.keys.push_back(key);
    message.stimulus_id = "test";
    write(stream_.op(), message);
  });
}

Async<void> FakeScheduler::ask(std::string worker, std::vector<std::string> names) {
  std::vector<Key> keys;
  for (const std::string& name : names) keys.push_back(string_key(name));
  GetDataCall call;
  for (const Key& key : keys) call.keys.push_back(key);
  Found found;
  Result<Ref> taken = co_await pool_.take(worker);
  if (taken) {
    const Ref connection = *taken;
    connection->send(message_of(call));
    Result<Frames> frames = co_await connection->read();
    Message message;
    GetDataReply reply;
    if (frames && message.reset(std::move(*frames)) && read(message, reply)) {
      for (const auto& [key, payload] : reply.data) {
        found[std::string(key.bytes)] = std::string(payload->header.view());
      }
    }
    MessageWriter writer;
    write_ok(writer);
    connection->send(writer.finish());
    pool_.give_back(worker, connection);
  }
  note([&] { found_ = std::move(found); });
}

std::map<std::string, std::string> FakeScheduler::get_data(std::string worker,
                                                           std::vector<std::string> keys) {
  note([this] { found_.reset(); });
  loop_.post([this, worker, keys] { spawn(ask(worker, keys)); });
  REQUIRE(wait([this] { return found_.has_value(); }));
  const std::lock_guard lock(mutex_);
  Found by_name;
  for (const std::string& key : keys) {
    const auto at = found_->find(string_key(key).bytes);
    if (at != found_->end()) by_name[key] = at->second;
  }
  return by_name;
}

void FakeScheduler::note(const std::function<void()>& change) {
  {
    const std::lock_guard lock(mutex_);
    change();
  }
  changed_.notify_all();
}

bool FakeScheduler::wait(const std::function<bool()>& holds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(60), holds);
}

bool FakeScheduler::wait_finished(std::size_t count) {
  return wait([&] { return finished_.size() >= count; });
}

bool FakeScheduler::wait_heartbeats(std::size_t count) {
  return wait([&] { return heartbeats_ >= count; });
}

}  // namespace worker
