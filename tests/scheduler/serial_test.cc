//! Two clients stage overlapping graphs while a shared input is released and its worker dies.
//!
//! A graph comes in pieces, so the four things that happen here may be cut into each other in
//! 1120 ways. Each must end as if every submission, the release and the death had happened at one
//! moment between its beginning and its end. Rows C2 and C6.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>

#include "tests/scheduler/world.h"

using namespace scheduler;

namespace {

enum Deed : std::uint8_t { kFirst, kSecond, kRelease, kDeath };
constexpr std::array<int, 4> kPieces{3, 3, 1, 1};
const std::vector<std::string> kKeys{"shared", "a", "b", "x", "p", "q"};

struct Setting {
  bool by_future = false;  //!< the graphs do not define `shared`: both clients hold a future of it
  bool eager = false;      //!< tasks finish between the pieces, not only at the end
  bool dropped = false;    //!< the first graph is given up where it would have been committed
};

//! One run; the same pieces in another order make another run.
class Run {
 public:
  explicit Run(Setting setting) : setting_(setting) {
    alice_ = w_.worker();
    ann_ = w_.client("ann");
    bea_ = w_.client("bea");
    w_.submit("shared");
    w_.finish("shared");
    if (setting_.by_future) w_.desire({"shared"}, ann_);
    if (setting_.by_future) w_.desire({"shared"}, bea_);
    w_.forget_sent();
  }

  void next_piece(Deed deed) {
    const int piece = done_[deed]++;
    switch (deed) {
      case kFirst:
        first(piece);
        break;
      case kSecond:
        second(piece);
        break;
      case kRelease:
        w_.release({"shared"});
        break;
      case kDeath:
        w_.lose(alice_);
        w_.worker({.threads = 2});
        break;
    }
    if (setting_.eager) work();
  }
  void whole(Deed deed) {
    if (deed == kFirst && setting_.dropped) return let_go(ann_);  // as if it had never been
    while (done_[deed] < kPieces[deed]) next_piece(deed);
  }

  //! What everybody can see when all work is done.
  std::string ending() {
    work();
    std::ostringstream text;
    for (const std::string& key : kKeys) {
      if (w_.knows(key)) text << key << ' ' << state_name(w_.state(key)) << edges(key) << "; ";
    }
    std::set<std::string> lost;
    for (const ReportCancelled& report : w_.take<ReportCancelled>()) {
      for (const Key& key : report.keys) {
        lost.insert(std::to_string(report.client.value) + " lost " + protocol::key_text(key));
      }
    }
    for (const std::string& each : lost) text << "client " << each << "; ";
    return text.str();
  }

 private:
  std::vector<Node> with_shared(std::vector<Node> nodes) const {
    if (!setting_.by_future) nodes.insert(nodes.begin(), Node{"shared"});
    return nodes;
  }
  //! What a client says after its graph waits until the graph is in.
  void let_go(ClientId client) {
    if (setting_.by_future) w_.release({"shared"}, client);
  }
  void first(int piece) {
    if (piece == 0) {
      one_ = w_.open({.client = ann_});
      w_.stage(one_, with_shared({{"a"}}));
    } else if (piece == 1) {
      w_.stage(one_, {{"x", {"a", "shared"}}, {"p", {"x"}}});
      w_.want(one_, {"p"});
    } else {
      w_.step(setting_.dropped ? Event(GraphDropped{one_}) : Event(GraphCommitted{one_}));
      w_.turns();
      let_go(ann_);
    }
  }
  //! Its x is another x.
  void second(int piece) {
    if (piece == 0) {
      two_ = w_.open({.client = bea_});
      w_.stage(two_, with_shared({{"b"}, {"x", {"b", "shared"}}}));
    } else if (piece == 1) {
      w_.stage(two_, {{"q", {"x", "shared"}}});
      w_.want(two_, {"q", "x"});
    } else {
      w_.commit(two_);
      let_go(bea_);
    }
  }
  void work() {
    for (bool again = true; std::exchange(again, false);) {
      w_.turns();
      for (const std::string& key : kKeys) {
        if (!w_.knows(key) || w_.state(key) != TaskState::processing) continue;
        w_.finish(key);
        again = true;
      }
    }
  }
  std::string edges(const std::string& key) const {
    std::set<std::string> needs;
    for (const Edge& edge : w_.task(key).dependencies) {
      needs.insert(protocol::key_text(w_.core.task(edge.task).key()));
    }
    std::set<std::uint32_t> clients;
    for (const Want& want : w_.task(key).who_wants) clients.insert(want.client.value);
    std::string text = " of";
    for (const std::string& need : needs) text += " " + need;
    text += " for";
    for (const std::uint32_t client : clients) text += " " + std::to_string(client);
    return text;
  }

  Setting setting_;
  World w_;
  WorkerId alice_;
  ClientId ann_, bea_;
  SubmissionId one_, two_;
  std::array<int, 4> done_{};
};

using Order = std::vector<Deed>;

//! Endings of all orders of whole deeds.
std::map<Order, std::string> serial_endings(Setting setting) {
  std::map<Order, std::string> endings;
  Order order{kFirst, kSecond, kRelease, kDeath};
  do {
    Run run(setting);
    for (const Deed deed : order) run.whole(deed);
    endings[order] = run.ending();
  } while (std::next_permutation(order.begin(), order.end()));
  return endings;
}

//! Whether the pieces may be seen as whole deeds in this order: one that had ended before another
//! began comes before it.
bool agrees(const Order& pieces, const Order& order) {
  const auto began = [&](Deed deed) { return std::find(pieces.begin(), pieces.end(), deed); };
  const auto last = [&](Deed deed) {
    return std::find(pieces.rbegin(), pieces.rend(), deed).base();
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t later = i + 1; later < order.size(); ++later) {
      if (last(order[later]) <= began(order[i])) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("overlapping graphs, a release and a death in pieces end as in some order of whole ones",
          "[scheduler][graph][C2][C6]") {
  const Setting setting{GENERATE(false, true), GENERATE(false, true), GENERATE(false, true)};
  CAPTURE(setting.by_future, setting.eager, setting.dropped);
  const std::map<Order, std::string> serial = serial_endings(setting);
  CHECK(serial.at({kFirst, kSecond, kRelease, kDeath}) != "");
  Order pieces;
  for (const Deed deed : {kFirst, kSecond, kRelease, kDeath}) {
    pieces.insert(pieces.end(), static_cast<std::size_t>(kPieces[deed]), deed);
  }
  int runs = 0;
  do {
    Run run(setting);
    for (const Deed deed : pieces) run.next_piece(deed);
    const std::string ending = run.ending();
    std::set<std::string> allowed;
    for (const auto& [order, expected] : serial) {
      if (agrees(pieces, order)) allowed.insert(expected);
    }
    const bool good = allowed.contains(ending);
    if (!good) {
      std::string said;
      for (const Deed deed : pieces) said += "12rd"[deed];
      for (const std::string& each : allowed) said += "\n  allowed: " + each;
      UNSCOPED_INFO(said << "\n  ended:   " << ending);
    }
    REQUIRE(good);
    ++runs;
  } while (std::next_permutation(pieces.begin(), pieces.end()));
  CHECK(runs == 1120);
}
