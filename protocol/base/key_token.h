//! Reads and writes the few msgpack tokens a key may consist of.
//!
//! Keys live below the codec (protocol/wire), so base has this small piece of msgpack of its own:
//! str, bin, int, float, bool and array, nothing else. Internal to base.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/base/bytes.h"

namespace protocol {

struct KeyToken {
  enum class Kind : std::uint8_t { str, bin, integer, floating, boolean, array, illegal, truncated };
  Kind kind = Kind::illegal;
  bool minimal = true;     //!< the shortest encoding, in the form Python's packer chooses
  bool negative = false;   //!< of an integer: `number` is an int64 in two's complement
  std::uint64_t number = 0;  //!< integer, boolean, or the element count of an array
  double real = 0;
  ByteView body;           //!< of str and bin
  std::size_t bytes = 0;   //!< encoded size (for an array: of its header)
};

KeyToken read_key_token(ByteView in);

void append_integer(std::string& out, std::uint64_t number, bool negative);
void append_double(std::string& out, double real);
void append_str(std::string& out, ByteView text);
void append_bin(std::string& out, ByteView bytes);
void append_array_header(std::string& out, std::uint32_t count);

}  // namespace protocol
