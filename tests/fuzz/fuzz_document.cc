//! A document that parses is consistent: raw bytes tile the input, and writing any value gives back
//! a message that reads the same.
#include <string>

#include "protocol/base/key.h"
#include "protocol/wire/message.h"
#include "protocol/wire/writer.h"
#include "tests/fuzz/input.h"

namespace {

using namespace protocol;

void check_key_of(const Message& message, Value value) {
  const auto key = message.key(value);
  if (!key) return;
  const auto again = canonical_key(key->bytes);
  fuzz::require(again.ok() && again->view() == *key && *check_key(key->bytes));
  prefix_name(*key);
  group_name(*key);
  key_repr(*key);
  key_text(*key);
}

void check_value(const Message& message, Value value) {
  fuzz::require(!value.raw().empty());
  std::size_t inside = 0;
  if (value.is_array()) {
    for (const Value element : value.elements()) inside += element.raw().size();
  }
  for (const Entry entry : value.entries()) {
    inside += entry.key.raw().size() + entry.value.raw().size();
  }
  if (value.is_array() || value.is_map()) fuzz::require(inside < value.raw().size());
  value.as_bool();
  value.as_int();
  value.as_uint();
  value.as_double();
  value.as_str();
  value.as_bin();
  value.enum_name();
  check_key_of(message, value);
}

//! Relaying must not fail where reading succeeded, and must keep what is not a marker.
void check_relay(const Message& message, Value value) {
  const auto payload = message.payload(value);
  if (!payload) return;
  MessageWriter writer;
  writer.array(1);
  writer.payload(*payload);
  const PayloadRef made = writer.take_payload();
  Frames frames{made->header};
  frames.insert(frames.end(), made->frames.begin(), made->frames.end());
  Message relayed;
  fuzz::require(relayed.reset(std::move(frames)).ok());
  const Value inner = *relayed.root().elements().begin();
  if (!holds_marker(value)) fuzz::require(inner.raw() == value.raw());
  const auto again = relayed.payload(inner);
  fuzz::require(again.ok() && (*again)->kind == (*payload)->kind);
  fuzz::require((*again)->frames.size() == (*payload)->frames.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Message message;
  if (!message.reset(fuzz::frames_of(fuzz::view(data, size)))) return 0;
  fuzz::require(message.root().raw() == message.frames()[0].view());
  const auto nodes = static_cast<std::uint32_t>(message.document().tape().size() - 1);
  for (std::uint32_t k = 0; k < nodes && k < 2000; ++k) {
    check_value(message, Value(&message.document(), k));
  }
  if (message.document().tape()[0].type != Type::nil && size < 4096) {
    check_relay(message, message.root());
    for (const Value element : message.root().elements()) check_relay(message, element);
  }
  return 0;
}
