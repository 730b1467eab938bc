//! Taking, asking and giving back; see rpc_pool.h.
#include "protocol/net/rpc_pool.h"

#include <utility>

namespace protocol {

RpcPool::RpcPool(Loop& loop, DialOptions options) : loop_(loop), options_(std::move(options)) {
  options_.begun = [this](const Connection::Ref& connection) {
    // A name may have been looked up for long.
    if (ended_) return connection->abort({Fault::closed, "this side ends"});
    std::erase_if(dialled_, [](const auto& known) { return known.expired(); });
    dialled_.push_back(connection);
  };
}

Async<Result<Connection::Ref>> RpcPool::take(std::string address) {
  if (ended_) co_return Error{Fault::closed, "this side ends"};
  if (auto found = idle_.find(address); found != idle_.end()) {
    auto& list = found->second;
    while (!list.empty()) {
      const Connection::Ref connection = std::move(list.back());
      list.pop_back();
      // An answer nobody asked for would be taken for the answer to the next question.
      if (!connection->closed() && connection->unread().empty()) co_return connection;
      connection->abort({Fault::closed, "out of step"});
    }
    idle_.erase(found);
  }
  auto dialled = co_await dial(loop_, address, options_);
  if (!dialled) co_return dialled.error();
  co_return dialled->connection;
}

void RpcPool::give_back(const std::string& address, Connection::Ref connection) {
  if (connection->closed()) return;
  auto& list = idle_[address];
  if (closed_ || list.size() >= kIdlePerAddress) {
    connection->close();
    return;
  }
  // While idle nobody reads, so the end of the connection is noticed only when it is taken again;
  // the socket itself is still read and closed, which frees the descriptor.
  list.push_back(std::move(connection));
}

Async<Result<Frames>> RpcPool::call(Call call) {
  auto taken = co_await take(call.address);
  if (!taken) co_return taken.error();
  const Connection::Ref connection = *taken;
  Timer deadline(loop_);
  if (call.timeout) {
    deadline.start(static_cast<std::uint64_t>(call.timeout->ns / 1'000'000), 0, [&connection] {
      connection->abort({Fault::timeout, "no answer in time"});
    });
  }
  connection->send(call.question);
  auto answer = co_await connection->read();
  if (!answer) co_return Error{answer.error().fault, call.address + ": " + answer.error().where};
  if (call.keep) {
    give_back(call.address, connection);
  } else {
    connection->close();
  }
  co_return answer;
}

void RpcPool::forget(const std::string& address) {
  const auto found = idle_.find(address);
  if (found == idle_.end()) return;
  for (auto& connection : found->second) connection->close();
  idle_.erase(found);
}

void RpcPool::close() {
  closed_ = true;
  for (auto& [address, list] : std::exchange(idle_, {})) {
    for (auto& connection : list) connection->close();
  }
}

void RpcPool::end() {
  ended_ = true;
  close();
  for (const auto& known : std::exchange(dialled_, {})) {
    if (const Connection::Ref connection = known.lock()) {
      connection->abort({Fault::closed, "this side ends"});
    }
  }
}

std::size_t RpcPool::idle() const {
  std::size_t count = 0;
  for (const auto& [address, list] : idle_) count += list.size();
  return count;
}

}  // namespace protocol
