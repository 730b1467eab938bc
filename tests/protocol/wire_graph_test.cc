//! The priorities of update-graph: those of `map` are its keys in order and nothing more.
#include <catch2/catch.hpp>

#include "protocol/wire/messages_client.h"
#include "tests/protocol/wire_loop.h"

using namespace protocol;

namespace {

const Key kX = string_key("x");
const Key kY = *canonical_key("\x92\xa1y\x01");  // ("y", 1)
const Key kZ = string_key("z");

//! update-graph of keys x and y with these priorities, in this order.
UpdateGraph with_priorities(Message& message,
                            const std::vector<std::pair<KeyView, std::int64_t>>& priorities) {
  MessageWriter writer;
  writer.map(3);
  writer.field("expr_ser");
  writer.bin("graph");
  writer.field("keys");
  writer.array(2);
  writer.key(kX);
  writer.key(kY);
  writer.field("internal_priority");
  writer.map(static_cast<std::uint32_t>(priorities.size()));
  for (const auto& [key, priority] : priorities) {
    writer.key(key);
    writer.integer(priority);
  }
  deliver(writer, message);
  UpdateGraph got;
  REQUIRE(read(message, message.root(), got).ok());
  return got;
}

}  // namespace

TEST_CASE("priorities that count the keys are kept as the order of the keys", "[wire][messages]") {
  using Given = std::vector<std::pair<KeyView, std::int64_t>>;
  Message message;
  const UpdateGraph map = with_priorities(message, {{kX, 0}, {kY, 1}});
  CHECK(map.has_priorities);
  CHECK(map.priorities_in_order);
  CHECK(map.keys == std::vector<KeyView>{kX, kY});
  CHECK(map.priorities.empty());
  const UpdateGraph turned = with_priorities(message, {{kY, 0}, {kX, 1}});
  CHECK(turned.priorities_in_order);
  CHECK(turned.keys == std::vector<KeyView>{kY, kX});
  for (const Given& given : {Given{{kX, 0}, {kY, 2}}, Given{{kX, 0}}, Given{{kX, 1}, {kY, 0}},
                             Given{{kX, 0}, {kX, 1}}, Given{{kX, 0}, {kZ, 1}}}) {
    const UpdateGraph other = with_priorities(message, given);
    CHECK(other.has_priorities);
    CHECK_FALSE(other.priorities_in_order);
    CHECK(other.keys == std::vector<KeyView>{kX, kY});
    CHECK(other.priorities == given);
  }
}
