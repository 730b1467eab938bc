//! Worker and nanny plugins: pickles that are kept and handed to every worker, now and later.
//!
//! They are never opened here; what a client uploads to the scheduler is kept by the graph link.
//! Stock ships one of its own, `shuffle`, without which P2P fails on a worker; it is the first
//! entry.
//!
//! Answers to: Scheduler.worker_plugins and nanny_plugins.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace scheduler {

//! Name -> pickle, in order of registration.
class PluginList {
 public:
  using Entry = std::pair<std::string, std::string>;
  const std::string* find(std::string_view name) const {
    for (const Entry& entry : entries_) {
      if (entry.first == name) return &entry.second;
    }
    return nullptr;
  }
  void set(std::string_view name, std::string_view pickle) {
    for (Entry& entry : entries_) {
      if (entry.first == name) {
        entry.second = pickle;
        return;
      }
    }
    entries_.emplace_back(name, pickle);
  }
  bool remove(std::string_view name) {
    return std::erase_if(entries_, [&](const Entry& entry) { return entry.first == name; }) > 0;
  }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }

 private:
  std::vector<Entry> entries_;
};

struct Plugins {
  PluginList worker;
  PluginList nanny;
  //! Those of the scheduler, by name: what the graph processes have loaded.
  std::map<std::string, std::uint32_t, std::less<>> scheduler;
  std::size_t nannies_starting = 0;  //!< registered nannies that have not reported yet
};

}  // namespace scheduler
