//! What a worker is told at its start; Dask's configuration is resolved by Python before.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "protocol/base/bytes.h"

namespace worker {

using protocol::Slice;

//! When to spill and pause; may change while the worker runs.
struct MemoryBounds {
  std::uint64_t limit = 0;  //!< 0: none
  double target = 0.6;      //!< fractions of the limit; <= 0: off
  double spill = 0.7;
  double pause = 0.8;
};

struct Options {
  std::string id;                      //!< Worker-<uuid>, unique per incarnation
  std::string scheduler_address;
  std::string listen_host;             //!< empty: every interface
  std::string contact_host;            //!< what peers call us, if we listen on every interface
  std::string contact_address;         //!< empty: where we listen
  Slice name;                          //!< msgpack scalar; empty: the address
  std::uint32_t nthreads = 1;
  MemoryBounds memory;
  double memory_transfer = 0.1;        //!< of the limit: bytes in flight to us
  std::uint64_t max_spill = 0;         //!< bytes on disk; 0: no bound
  double memory_monitor_seconds = 0.1;
  std::vector<std::pair<std::string, double>> resources;
  std::string local_directory;
  std::string nanny_address;           //!< empty: none
  Slice versions;                      //!< msgpack map for register-worker
  Slice extra;                         //!< msgpack map, shown in the scheduler's info of us
  std::vector<std::pair<std::string, std::uint16_t>> services;
  double heartbeat_seconds = 1.0;
  double connect_timeout_seconds = 30;
  std::uint32_t incoming_connections = 10;
  std::uint32_t outgoing_connections = 50;
  std::uint64_t message_bytes_limit = 50'000'000;
  std::uint32_t story_lines = 1000;    //!< transitions kept for stories
  std::string pin;                     //!< none | core | numa
};

}  // namespace worker
