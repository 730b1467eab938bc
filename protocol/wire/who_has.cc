#include "protocol/wire/who_has.h"

#include <absl/container/flat_hash_map.h>

namespace protocol {
namespace {

//! Sizes in another order than the holders, which stock never sends.
void match_sizes(Fields& fields, Value nbytes, WhoHas& out) {
  absl::flat_hash_map<ByteView, std::uint64_t> sizes;
  for (const Entry entry : nbytes.entries()) {
    sizes[fields.key_at("nbytes", entry.key).bytes] = entry.value.as_uint().value_or(0);
  }
  for (Holders& holders : out.keys) {
    const auto found = sizes.find(holders.key.bytes);
    if (found != sizes.end()) holders.nbytes = found->second;
  }
}

void read_sizes(Fields& fields, Value nbytes, WhoHas& out) {
  std::size_t k = 0;
  for (const Entry entry : nbytes.entries()) {
    const auto size = entry.value.as_uint();
    if (!size) return fields.wrong("nbytes", "is not a map of ints");
    const KeyView key = fields.key_at("nbytes", entry.key);
    if (k >= out.keys.size() || out.keys[k].key != key) return match_sizes(fields, nbytes, out);
    out.keys[k++].nbytes = *size;
  }
}

}  // namespace

void write_who_has(MessageWriter& writer, const WhoHas& who_has) {
  writer.map(static_cast<std::uint32_t>(who_has.keys.size()));
  for (const Holders& holders : who_has.keys) {
    writer.key(holders.key);
    writer.array(holders.count);
    for (const std::string_view address : who_has.workers(holders)) writer.str(address);
  }
}

void write_nbytes(MessageWriter& writer, const WhoHas& who_has) {
  writer.map(static_cast<std::uint32_t>(who_has.keys.size()));
  for (const Holders& holders : who_has.keys) {
    writer.key(holders.key);
    writer.uinteger(holders.nbytes);
  }
}

void read_who_has(Fields& fields, WhoHas& out, bool sizes) {
  out.clear();
  const Value who_has = fields.require("who_has");
  if (who_has.exists() && !who_has.is_map()) return fields.wrong("who_has", "is not a map");
  for (const Entry entry : who_has.entries()) {
    out.add_key(fields.key_at("who_has", entry.key));
    for (const Value address : entry.value.elements()) {
      if (!address.is_str()) return fields.wrong("who_has", "holds an address that is not a str");
      out.add_address(*address.as_str());
    }
  }
  if (!sizes) return;
  const Value nbytes = fields.require("nbytes");
  if (nbytes.exists() && !nbytes.is_map()) return fields.wrong("nbytes", "is not a map");
  read_sizes(fields, nbytes, out);
}

}  // namespace protocol
