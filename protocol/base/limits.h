//! Every limit on what a peer may make us do, in one place.
#pragma once

#include <cstddef>
#include <cstdint>

namespace protocol {

struct Limits {
  // Before the handshake is done nothing is known about the peer.
  std::uint64_t handshake_frames_max = 64;
  std::uint64_t handshake_bytes_max = 64 * 1024;
  std::int64_t handshake_deadline_ms = 10'000;
  std::uint32_t handshakes_max = 256;              //!< connections that have not greeted yet
  // Afterwards: honest batches carry two frames per task and scatters reach many GB.
  std::uint64_t message_frames_max = 1u << 20;
  std::uint64_t message_bytes_max = 1ull << 40;    //!< declared; memory grows with received bytes only
  std::uint32_t msgpack_depth_max = 1024;          //!< what stock's decoder accepts
  std::uint64_t document_nodes_max = 1u << 26;     //!< values in one frame 0 (16 bytes each here)
  std::size_t read_growth_max = 1u << 20;          //!< first piece of a declared frame on the heap
  std::size_t outbox_bytes_max = 1ull << 32;       //!< a peer that does not read is disconnected
  // Stock has no such limit, and a key takes no more memory than the bytes that came. This one keeps
  // lengths far below 32 bits.
  std::size_t key_bytes_max = 64u << 20;
};

inline constexpr Limits kLimits{};

}  // namespace protocol
