//! Where keys lie: {key: [address…]} and {key: nbytes}, kept flat so that one object can be filled
//! and emptied for thousands of messages without allocating.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "protocol/base/key.h"
#include "protocol/wire/fields.h"
#include "protocol/wire/writer.h"

namespace protocol {

//! A key, its size and its replicas' addresses: `count` of WhoHas::addresses from `first` on.
struct Holders {
  KeyView key;
  std::uint64_t nbytes = 0;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

struct WhoHas {
  std::vector<Holders> keys;
  std::vector<std::string_view> addresses;

  void clear() {
    keys.clear();
    addresses.clear();
  }
  void add_key(KeyView key, std::uint64_t nbytes = 0) {
    keys.push_back({key, nbytes, static_cast<std::uint32_t>(addresses.size()), 0});
  }
  //! A replica of the key added last.
  void add_address(std::string_view address) {
    addresses.push_back(address);
    ++keys.back().count;
  }
  std::span<const std::string_view> workers(const Holders& holders) const {
    return std::span(addresses).subspan(holders.first, holders.count);
  }
};

//! Writes the map {key: [address…]}.
void write_who_has(MessageWriter& writer, const WhoHas& who_has);
//! Writes the map {key: nbytes}.
void write_nbytes(MessageWriter& writer, const WhoHas& who_has);

//! Reads field `who_has`, and field `nbytes` unless `sizes` is false. A key without a size has 0.
void read_who_has(Fields& fields, WhoHas& out, bool sizes);

}  // namespace protocol
