#include "protocol/wire/fields.h"

#include <utility>

namespace protocol {

Fields::Fields(const Message& message, Value map, std::string_view op)
    : message_(message), op_(op) {
  if (!map.is_map()) {
    error_ = Error{Fault::bad_type, std::string(op) + ": not a map"};
    return;
  }
  document_ = map.document();
  first_ = place_ = map.index() + 1;
  last_ = document_->tape()[map.index()].next;
}

Value Fields::find_from(std::uint32_t from, std::uint32_t to, std::string_view name) {
  const auto& tape = document_->tape();
  while (from < to) {
    const std::uint32_t value = tape[from].next;
    if (tape[from].size == name.size() && Value(document_, from).equals(name)) {
      place_ = tape[value].next;
      return Value(document_, value);
    }
    from = tape[value].next;
  }
  return {};
}

Value Fields::find(std::string_view name) {
  if (document_ == nullptr) return {};
  const std::uint32_t start = place_;
  const Value found = find_from(start, last_, name);
  return found.exists() ? found : find_from(first_, start, name);
}

Value Fields::maybe(std::string_view name) {
  const Value value = find(name);
  return value.is_nil() ? Value() : value;
}

Value Fields::require(std::string_view name) {
  const Value value = find(name);
  if (!value.exists()) wrong(name, "is missing");
  return value;
}

void Fields::wrong(std::string_view name, std::string_view what, Fault fault) {
  if (error_) return;
  error_ = Error{fault, std::string(op_) + ": field '" + std::string(name) + "' " +
                            std::string(what)};
}

Status Fields::status() const {
  if (error_) return *error_;
  return Done{};
}

KeyView Fields::key_at(std::string_view name, Value value) {
  Result<KeyView> key = message_.key(value);
  if (key) return *key;
  wrong(name, key.error().text(), key.error().fault);
  return {};
}

KeyView Fields::key(std::string_view name) {
  const Value value = require(name);
  return value.exists() ? key_at(name, value) : KeyView{};
}

std::string_view Fields::str(std::string_view name) {
  const Value value = require(name);
  if (!value.exists()) return {};
  const auto text = value.as_str();
  if (!text) wrong(name, "is not a str");
  return text.value_or(std::string_view());
}

ByteView Fields::bin(std::string_view name) {
  const Value value = require(name);
  if (!value.exists()) return {};
  const auto bytes = value.as_bin();
  if (!bytes) wrong(name, "is not bytes");
  return bytes.value_or(ByteView());
}

double Fields::real(std::string_view name) {
  const Value value = require(name);
  if (!value.exists()) return 0;
  const auto number = value.as_double();
  if (!number) wrong(name, "is not a number");
  return number.value_or(0);
}

std::int64_t Fields::integer(std::string_view name) {
  const Value value = require(name);
  if (!value.exists()) return 0;
  const auto number = value.as_int();
  if (!number) wrong(name, "is not an int");
  return number.value_or(0);
}

std::uint64_t Fields::uinteger(std::string_view name) {
  const Value value = require(name);
  if (!value.exists()) return 0;
  const auto number = value.as_uint();
  if (!number) wrong(name, "is not an int >= 0");
  return number.value_or(0);
}

PayloadRef Fields::payload(std::string_view name) {
  const Value value = require(name);
  if (!value.exists()) return nullptr;
  Result<PayloadRef> payload = message_.payload(value);
  if (payload) return std::move(*payload);
  wrong(name, payload.error().text(), payload.error().fault);
  return nullptr;
}

void Fields::all_keys(std::string_view name, Value value, std::vector<KeyView>& out) {
  const Elements elements = value.elements();
  if (!value.is_array() && elements.size() == 0 && !value.find("__Set__").exists()) {
    return wrong(name, "is not a list of keys");
  }
  out.reserve(elements.size());
  for (const Value element : elements) out.push_back(key_at(name, element));
}

void Fields::keys(std::string_view name, std::vector<KeyView>& out) {
  out.clear();
  const Value value = require(name);
  if (value.exists()) all_keys(name, value, out);
}

bool Fields::keys_or_none(std::string_view name, std::vector<KeyView>& out) {
  out.clear();
  const Value value = maybe(name);
  if (!value.exists()) return false;
  all_keys(name, value, out);
  return true;
}

bool Fields::strings_or_none(std::string_view name, std::vector<std::string_view>& out) {
  out.clear();
  const Value value = maybe(name);
  if (!value.exists()) return false;
  if (value.is_str()) {
    out.push_back(*value.as_str());
    return true;
  }
  for (const Value element : value.elements()) {
    const auto text = element.as_str();
    if (!text) wrong(name, "is not a list of str");
    out.push_back(text.value_or(std::string_view()));
  }
  return true;
}

std::string_view Fields::str_or(std::string_view name, std::string_view fallback) {
  const Value value = maybe(name);
  if (!value.exists()) return fallback;
  const auto text = value.as_str();
  if (!text) wrong(name, "is not a str");
  return text.value_or(fallback);
}

ByteView Fields::bin_or(std::string_view name, ByteView fallback) {
  const Value value = maybe(name);
  if (!value.exists()) return fallback;
  const auto bytes = value.as_bin();
  if (!bytes) wrong(name, "is not bytes");
  return bytes.value_or(fallback);
}

double Fields::real_or(std::string_view name, double fallback) {
  const Value value = maybe(name);
  if (!value.exists()) return fallback;
  const auto number = value.as_double();
  if (!number) wrong(name, "is not a number");
  return number.value_or(fallback);
}

std::int64_t Fields::integer_or(std::string_view name, std::int64_t fallback) {
  const Value value = maybe(name);
  if (!value.exists()) return fallback;
  const auto number = value.as_int();
  if (!number) wrong(name, "is not an int");
  return number.value_or(fallback);
}

std::uint64_t Fields::uinteger_or(std::string_view name, std::uint64_t fallback) {
  const Value value = maybe(name);
  if (!value.exists()) return fallback;
  const auto number = value.as_uint();
  if (!number) wrong(name, "is not an int >= 0");
  return number.value_or(fallback);
}

bool Fields::boolean_or(std::string_view name, bool fallback) {
  const Value value = maybe(name);
  if (!value.exists()) return fallback;
  const auto flag = value.as_bool();
  if (!flag) wrong(name, "is not a bool");
  return flag.value_or(fallback);
}

PayloadRef Fields::payload_or_nil(std::string_view name) {
  const Value value = maybe(name);
  if (!value.exists()) return nil_payload();
  Result<PayloadRef> payload = message_.payload(value);
  if (payload) return std::move(*payload);
  wrong(name, payload.error().text(), payload.error().fault);
  return nil_payload();
}

}  // namespace protocol
