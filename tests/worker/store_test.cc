//! The store: forms of a value, sizes, and who goes to disk first.
#include <catch2/catch.hpp>
#include <unistd.h>

#include <memory>
#include <string>

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

}  // namespace

TEST_CASE("a value is found by id and by key until it is dropped", "[worker][store]") {
  Store store;
  const ValueId id = store.add(key("x"), Value{alive(), nullptr, 10}, {}, false);
  CHECK(store.get(id)->value.nbytes == 10);
  CHECK(store.find(key("x")).has_value());
  CHECK(store.fast_bytes() == 10);
  store.drop(id);
  CHECK_FALSE(store.get(id).has_value());
  CHECK_FALSE(store.find(key("x")).has_value());
  CHECK(store.fast_bytes() == 0);
}

TEST_CASE("dropping an old value of a key leaves the newer one", "[worker][store]") {
  Store store;
  const ValueId old_value = store.add(key("x"), Value{alive(), nullptr, 1}, {}, false);
  const ValueId new_value = store.add(key("x"), Value{alive(), nullptr, 2}, {}, false);
  store.drop(old_value);
  CHECK(store.find(key("x"))->value.nbytes == 2);
  store.drop(new_value);
  CHECK(store.keys().empty());
}

TEST_CASE("a share taken out of the store outlives the drop", "[worker][store]") {
  Store store;
  std::weak_ptr<void> watched;
  ValueId id;
  {
    LiveRef live = alive();
    watched = live;
    id = store.add(key("x"), Value{std::move(live), nullptr, 1}, {}, false);
  }
  {
    const auto held = store.get(id);
    store.drop(id);
    CHECK_FALSE(watched.expired());
  }
  CHECK(watched.expired());
}

TEST_CASE("the least recently used value goes to disk first", "[worker][store]") {
  Store store;
  const ValueId first = store.add(key("a"), Value{alive(), nullptr, 1}, {}, false);
  const ValueId second = store.add(key("b"), Value{alive(), nullptr, 1}, {}, false);
  store.get(first);
  CHECK(store.next_victim()->first == second);
  CHECK(store.next_victim()->first == first);
  CHECK_FALSE(store.next_victim().has_value());
}

TEST_CASE("an evicted value counts as slow and comes back when it is used", "[worker][store]") {
  Store store;
  const ValueId id = store.add(key("x"), Value{alive(), nullptr, 100}, {}, false);
  REQUIRE(store.next_victim()->first == id);
  REQUIRE(store.evict(id, on_disk("back", bytes("value"))));
  CHECK(store.fast_bytes() == 0);
  CHECK(store.slow_bytes() == 100);
  CHECK(store.disk_bytes() > 0);
  CHECK(store.get(id)->value.live == nullptr);

  store.set_live(id, alive());
  CHECK(store.fast_bytes() == 100);
  CHECK(store.slow_bytes() == 0);
  // The file is still good, so the next eviction writes nothing.
  CHECK(store.get(id)->spilled != nullptr);
}

TEST_CASE("a value used while it leaves stays in memory", "[worker][store]") {
  Store store;
  const ValueId id = store.add(key("x"), Value{alive(), nullptr, 1}, {}, false);
  REQUIRE(store.next_victim()->first == id);
  store.get(id);
  CHECK_FALSE(store.evict(id, on_disk("used", bytes("value"))));
  CHECK(store.get(id)->value.live != nullptr);
}

TEST_CASE("actors and values that cannot be written are never victims", "[worker][store]") {
  Store store;
  store.add(key("actor"), Value{alive(), nullptr, 1}, {}, true);
  const ValueId stubborn = store.add(key("x"), Value{alive(), nullptr, 1}, {}, false);
  REQUIRE(store.next_victim()->first == stubborn);
  store.keep(stubborn, true);
  CHECK_FALSE(store.next_victim().has_value());
}
