//! Rounds of asking; see gather.h.
#include "scheduler/shell/gather.h"

#include <fmt/format.h>

#include <utility>

#include "protocol/wire/errors.h"
#include "scheduler/core/state.h"
#include "scheduler/shell/server.h"
#include "scheduler/shell/stream.h"

namespace scheduler {
namespace {

constexpr double kBusyPause = 0.15;  // seconds, as stock

}  // namespace

//! Picks a holder for each wanted key. False if some wait for a busy worker and none can be asked.
bool Gathering::plan(std::unordered_map<std::string, Batch>& out, const Batch& wanted,
                     Batch& unreachable) {
  bool waits = false;
  for (const std::size_t index : wanted) {
    std::vector<const std::string*> ready;
    bool busy = false;
    if (const auto id = server_.core.find(keys_[index])) {
      for (const Replica& replica : server_.core.task(*id).who_has) {
        const std::string& address = server_.core.worker(replica.worker).address;
        if (gone_.contains(address) || without_[index].contains(address)) continue;
        if (busy_.contains(address)) {
          busy = true;
        } else {
          ready.push_back(&address);
        }
      }
    }
    if (!ready.empty()) {
      out[*ready[server_.pick(ready.size())]].push_back(index);
    } else if (busy) {
      waits = true;
    } else {
      unreachable.push_back(index);
    }
  }
  return !out.empty() || !waits;
}

protocol::Async<void> Gathering::run() {
  found_.resize(keys_.size());
  Batch wanted(keys_.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = i;
  while (!wanted.empty()) {
    std::unordered_map<std::string, Batch> ask;
    Batch unreachable;
    const bool can_go_on = plan(ask, wanted, unreachable);
    for (const std::size_t index : unreachable) failed_.push_back(keys_[index]);
    if (!can_go_on) {
      co_await sleep(server_.loop, kBusyPause);
      busy_.clear();
    }
    std::vector<std::pair<std::string, Batch>> asked(ask.begin(), ask.end());
    std::vector<protocol::Async<Outcome>> fetches;
    for (const auto& [address, batch] : asked) fetches.push_back(fetch(address, batch));
    const auto outcomes = co_await protocol::all(std::move(fetches));
    std::unordered_set<std::size_t> settled(unreachable.begin(), unreachable.end());
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const auto& [address, batch] = asked[i];
      if (outcomes[i] == Outcome::busy) busy_.insert(address);
      if (outcomes[i] == Outcome::gone) gone_.insert(address);
      for (const std::size_t index : batch) {
        if (found_[index].message) settled.insert(index);
        if (outcomes[i] == Outcome::refused) {
          failed_.push_back(keys_[index]);
          settled.insert(index);
        }
      }
    }
    std::erase_if(wanted, [&](std::size_t index) { return settled.contains(index); });
  }
}

protocol::Async<Gathering::Outcome> Gathering::fetch(std::string address, Batch batch) {
  protocol::GetDataCall call;
  for (const std::size_t index : batch) call.keys.push_back(keys_[index]);
  call.serializers = serializers_;
  protocol::MessageWriter question;
  protocol::write(question, call);
  auto taken = co_await server_.pool.take(address);
  if (!taken) co_return Outcome::gone;
  const protocol::Connection::Ref connection = *taken;
  connection->send(question.finish());
  auto frames = co_await connection->read();
  if (!frames) co_return Outcome::gone;
  const auto answer = std::make_shared<protocol::Message>();
  if (auto parsed = answer->reset(std::move(*frames)); !parsed) {
    connection->abort(parsed.error());
    co_return Outcome::refused;
  }
  if (const auto error = protocol::as_error(*answer)) {
    server_.log.error(fmt::format("Unexpected error while collecting tasks from {}: {}", address,
                                  sample(error->exception_text, 300)));
    connection->abort({protocol::Fault::closed, "error reply"});
    co_return Outcome::refused;
  }
  if (answer->root().find("status").equals("busy")) {
    server_.pool.give_back(address, connection);
    co_return Outcome::busy;
  }
  protocol::MessageWriter thanks;
  protocol::write_ok(thanks);
  connection->send(thanks.finish());
  server_.pool.give_back(address, connection);
  take(answer, address, batch);
  co_return Outcome::done;
}

void Gathering::take(const std::shared_ptr<const protocol::Message>& answer,
                     const std::string& address, const Batch& batch) {
  std::unordered_map<std::string_view, std::size_t> open;
  for (const std::size_t index : batch) open.emplace(keys_[index].bytes, index);
  for (const auto [name, value] : answer->root().find("data").entries()) {
    const auto key = answer->key(name);
    if (!key) continue;
    const auto found = open.find(key->bytes);
    if (found == open.end()) continue;
    found_[found->second] = {answer, value};
    open.erase(found);
  }
  for (const auto& [key, index] : open) without_[index].insert(address);
}

protocol::OutMessage Gathering::reply() const {
  protocol::MessageWriter out;
  out.map(2);
  out.field("status");
  if (!failed_.empty()) {
    out.str("error");
    out.field("keys");
    protocol::write_keys(out, failed_);
    return out.finish();
  }
  out.str("OK");
  out.field("data");
  out.map(static_cast<std::uint32_t>(keys_.size()));
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    out.key(keys_[i]);
    // A value whose marker lies was checked when it was found; nil can only follow a broken peer.
    if (!out.value(*found_[i].message, found_[i].value)) out.nil();
  }
  return out.finish();
}

}  // namespace scheduler
