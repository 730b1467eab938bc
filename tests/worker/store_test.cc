//! The store: forms of a value, sizes, and who goes to disk first. The packer's end.
#include <catch2/catch.hpp>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>

#include "worker/shell/packer.h"
#include "worker/shell/store.h"

using namespace worker;

namespace {

Key key(const char* name) { return protocol::string_key(name); }

LiveRef alive() { return std::make_shared<int>(1); }

PayloadRef bytes(std::string text) {
  auto payload = std::make_shared<protocol::Payload>();
  payload->kind = protocol::Payload::Kind::serialized;
  payload->header = Slice::copy_of("header");
  payload->frames = {Slice::own(std::move(text))};
  return payload;
}

SpillRef on_disk(const char* name, const PayloadRef& payload) {
  const std::string path = std::string("/tmp/rask-store-test-") + std::to_string(::getpid()) + name;
  return *SpillFile::write(path, *payload);
}

Held value(const char* name, std::uint64_t nbytes, bool actor = false) {
  return Held{key(name), Value{alive(), nullptr, nbytes}, nullptr, nullptr, {}, actor};
}

using Answer = protocol::Result<Packed>;

protocol::Async<void> pack_into(Packer& packer, ValueId id, std::optional<Answer>& answer) {
  answer = co_await packer.pack(id);
}

}  // namespace

TEST_CASE("a value is found until it is dropped", "[worker][store]") {
  Store store;
  const ValueId id = store.add(value("x", 10));
  CHECK(store.get(id)->value.nbytes == 10);
  CHECK(store.fast_bytes() == 10);
  store.drop(id);
  CHECK(store.get(id) == nullptr);
  CHECK(store.fast_bytes() == 0);
}

TEST_CASE("a share taken out of the store outlives the drop", "[worker][store]") {
  Store store;
  std::weak_ptr<void> watched;
  ValueId id;
  {
    LiveRef live = alive();
    watched = live;
    id = store.add(Held{key("x"), Value{std::move(live), nullptr, 1}, nullptr, nullptr, {}, false});
  }
  {
    const Held held = *store.get(id);
    store.drop(id);
    CHECK_FALSE(watched.expired());
  }
  CHECK(watched.expired());
}

TEST_CASE("the least recently used value goes to disk first", "[worker][store]") {
  Store store;
  const ValueId first = store.add(value("a", 1));
  const ValueId second = store.add(value("b", 1));
  store.get(first);
  CHECK(store.next_victim()->first == second);
  CHECK(store.next_victim()->first == first);
  CHECK_FALSE(store.next_victim().has_value());
}

TEST_CASE("an evicted value counts as slow and comes back when it is used", "[worker][store]") {
  Store store;
  const ValueId id = store.add(value("x", 100));
  REQUIRE(store.next_victim()->first == id);
  REQUIRE(store.evict(id, on_disk("back", bytes("value"))));
  CHECK(store.fast_bytes() == 0);
  CHECK(store.slow_bytes() == 100);
  CHECK(store.disk_bytes() > 0);
  CHECK(store.get(id)->value.live == nullptr);

  store.set_live(id, alive(), false);
  CHECK(store.fast_bytes() == 100);
  CHECK(store.slow_bytes() == 0);
  // The file is still good, so the next eviction writes nothing.
  CHECK(store.get(id)->spilled != nullptr);
}

TEST_CASE("a value used while it leaves stays in memory", "[worker][store]") {
  Store store;
  const ValueId id = store.add(value("x", 1));
  REQUIRE(store.next_victim()->first == id);
  store.get(id);
  CHECK_FALSE(store.evict(id, on_disk("used", bytes("value"))));
  CHECK(store.get(id)->value.live != nullptr);
}

TEST_CASE("actors and values that cannot be written are never victims", "[worker][store]") {
  Store store;
  store.add(value("actor", 1, true));
  const ValueId stubborn = store.add(value("x", 1));
  REQUIRE(store.next_victim()->first == stubborn);
  store.keep(stubborn, true);
  CHECK_FALSE(store.next_victim().has_value());
}

TEST_CASE("looking at a value that leaves does not keep it", "[worker][store]") {
  Store store;
  const ValueId id = store.add(value("x", 1));
  REQUIRE(store.next_victim()->first == id);
  store.peek(id);  // as the packer does, to write it
  CHECK(store.evict(id, on_disk("peeked", bytes("value"))));
}

TEST_CASE("a revived value keeps its packed form only if told so", "[worker][store]") {
  Store store;
  const ValueId id = store.add(
      Held{key("x"), Value{nullptr, bytes("value"), 1}, nullptr, nullptr, {}, false});
  store.set_live(id, alive(), true);
  CHECK(store.get(id)->value.packed != nullptr);
  store.set_live(id, alive(), false);
  CHECK(store.get(id)->value.packed == nullptr);
}

TEST_CASE("whoever waits for bytes when the pack thread ends is told so", "[worker][packer]") {
  protocol::Loop loop;
  Store store;
  WaitQueue<PackRequest> requests;
  Packer packer(loop, store, requests);
  const ValueId id = store.add(value("x", 1));
  std::optional<Answer> first, second;
  spawn(pack_into(packer, id, first));
  spawn(pack_into(packer, id, second));
  REQUIRE_FALSE(first.has_value());
  packer.end();
  REQUIRE((first && second));
  CHECK_FALSE(first->ok());
  CHECK_FALSE(second->ok());
}
