//! Tables of peers; see peers.h.
#include "scheduler/shell/peers.h"

#include <algorithm>
#include <utility>

namespace scheduler {
namespace {

template <class Map, class Id>
auto take(Map& map, Id id) {
  typename Map::mapped_type out;
  if (const auto found = map.find(id); found != map.end()) {
    out = std::move(found->second);
    map.erase(found);
  }
  return out;
}

template <class Peer, class Id>
void set_at(std::vector<Peer*>& table, Id id, Peer* peer) {
  if (table.size() <= id.value) table.resize(id.value + 1);
  table[id.value] = peer;
}

template <class Names, class Map>
auto* look_up(const Names& names, Map& map, std::string_view name) {
  const auto id = names.find(std::string(name));
  return id == names.end() ? nullptr : map.at(id->second).get();
}

}  // namespace

std::size_t Peers::connected_clients() const {
  return std::count_if(clients_.begin(), clients_.end(),
                       [](const auto& entry) { return bool(entry.second->connection); });
}

WorkerPeer& Peers::add(std::unique_ptr<WorkerPeer> worker) {
  WorkerPeer& out = *worker;
  set_at(worker_by_id_, out.id, &out);
  by_address_.emplace(out.address, out.id);
  by_alias_.emplace(out.name.bytes, out.id);
  workers_.emplace(out.id, std::move(worker));
  return out;
}

ClientPeer& Peers::add(std::unique_ptr<ClientPeer> client) {
  ClientPeer& out = *client;
  set_at(client_by_id_, out.id, &out);
  by_client_name_[out.name] = out.id;
  clients_.emplace(out.id, std::move(client));
  return out;
}

std::unique_ptr<WorkerPeer> Peers::remove(WorkerId id) {
  auto out = take(workers_, id);
  if (out) {
    worker_by_id_[id.value] = nullptr;
    by_address_.erase(out->address);
    by_alias_.erase(out->name.bytes);
  }
  return out;
}

std::unique_ptr<ClientPeer> Peers::remove(ClientId id) {
  auto out = take(clients_, id);
  if (out) {
    client_by_id_[id.value] = nullptr;
    const auto found = by_client_name_.find(out->name);
    // The same client may have come back on a new connection already.
    if (found != by_client_name_.end() && found->second == id) by_client_name_.erase(found);
  }
  return out;
}

WorkerPeer* Peers::find_worker(std::string_view address) {
  return look_up(by_address_, workers_, address);
}

WorkerPeer* Peers::find_alias(protocol::KeyView name) {
  return look_up(by_alias_, workers_, name.bytes);
}

ClientPeer* Peers::find_client(std::string_view name) {
  return look_up(by_client_name_, clients_, name);
}

}  // namespace scheduler
