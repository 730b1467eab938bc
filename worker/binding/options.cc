#include "worker/binding/options.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace worker {

namespace nb = nanobind;
using protocol::ByteView;

namespace {

//! Reads `name` of the options dict into `out` if it is there.
template <class T>
void read_option(const nb::dict& options, const char* name, T& out) {
  if (options.contains(name)) out = nb::cast<T>(options[name]);
}

void read_option(const nb::dict& options, const char* name, Slice& out) {
  if (!options.contains(name)) return;
  const auto bytes = nb::cast<nb::bytes>(options[name]);
  out = Slice::copy_of(ByteView(bytes.c_str(), bytes.size()));
}

}  // namespace

Options options_of(const nb::dict& dict) {
  Options o;
  read_option(dict, "id", o.id);
  read_option(dict, "scheduler_address", o.scheduler_address);
  read_option(dict, "listen_host", o.listen_host);
  read_option(dict, "contact_host", o.contact_host);
  read_option(dict, "contact_address", o.contact_address);
  read_option(dict, "name", o.name);
  read_option(dict, "nthreads", o.nthreads);
  read_option(dict, "memory_limit", o.memory.limit);
  read_option(dict, "memory_target", o.memory.target);
  read_option(dict, "memory_spill", o.memory.spill);
  read_option(dict, "memory_pause", o.memory.pause);
  read_option(dict, "memory_transfer", o.memory_transfer);
  read_option(dict, "max_spill", o.max_spill);
  read_option(dict, "memory_monitor_seconds", o.memory_monitor_seconds);
  read_option(dict, "resources", o.resources);
  read_option(dict, "local_directory", o.local_directory);
  read_option(dict, "nanny_address", o.nanny_address);
  read_option(dict, "versions", o.versions);
  read_option(dict, "extra", o.extra);
  read_option(dict, "services", o.services);
  read_option(dict, "heartbeat_seconds", o.heartbeat_seconds);
  read_option(dict, "connect_timeout_seconds", o.connect_timeout_seconds);
  read_option(dict, "incoming_connections", o.incoming_connections);
  read_option(dict, "outgoing_connections", o.outgoing_connections);
  read_option(dict, "message_bytes_limit", o.message_bytes_limit);
  read_option(dict, "story_lines", o.story_lines);
  read_option(dict, "pin", o.pin);
  return o;
}

}  // namespace worker
