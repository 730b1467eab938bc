//! What clients uploaded for the graph processes, and which child loads what next.
//!
//! An upload is a pickled plugin and loading it runs user code; so one child tries it alone, and
//! one that raises, hangs or dies there harms nobody else. What that child took is kept: every
//! other child, also a later one, loads it before its next graph. Trials come one after the other,
//! so all children load in the same order.
//!
//! Pure bookkeeping, so that the rules can be tested without processes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/base/bytes.h"
#include "scheduler/frontend/graph_types.h"
#include "scheduler/frontend/submissions.h"

namespace scheduler {

struct Upload {
  UploadId id = 0;
  protocol::Slice plugin;           //!< its pickle
  std::function<bool()> abandoned;  //!< nobody waits for the outcome of its trial any more
  std::uint32_t deaths = 0;         //!< children that died loading it, after one had taken it
};

class Uploads {
 public:
  static constexpr std::uint32_t kDeathsMax = 3;  //!< then it is forgotten

  //! An upload that waits for its trial.
  void add(Upload upload) {
    used_ = true;
    waiting_.push_back(std::move(upload));
  }
  void add_child(ChildId child) { children_[child]; }

  //! What a child that has nothing else to do loads now, or null. It counts as sent from then on.
  Upload* next(ChildId child);
  //! The child may not be given graphs: it is loading, or has to load first, or a trial waits and
  //! whoever has finished its graphs takes it.
  bool keeps(ChildId child) const;
  std::optional<UploadId> loading(ChildId child) const;
  //! The child whose trial nobody waits for any more.
  std::optional<ChildId> abandoned() const;
  bool on_trial(ChildId child) const { return trial_ && trial_->child == child; }

  //! The child has loaded what it was sent, or could not. True if that was the upload's trial.
  bool finish(ChildId child, bool loaded);

  struct Loss {
    UploadId id;
    bool trial;
    bool forgotten;  //!< it has ended too many children
  };
  //! A child is gone; what it was loading, if anything.
  std::optional<Loss> remove_child(ChildId child);

  //! Later children do without it.
  void forget(UploadId id);
  //! Everything that waits for its trial.
  std::deque<Upload> take_waiting() { return std::exchange(waiting_, {}); }
  //! False until there is a first upload: then nothing here need be asked.
  bool used() const { return used_; }

 private:
  struct Kept {
    std::uint64_t place;  //!< in the order of loading; never given twice
    Upload upload;
  };
  struct Trial {
    ChildId child;
    Upload upload;
  };
  struct Child {
    std::uint64_t loaded = 0;  //!< all that is kept up to this place
    std::optional<UploadId> loading;
    std::uint64_t loading_place = 0;
  };

  Kept* first_after(std::uint64_t place);
  bool behind(const Child& child) const {
    return !kept_.empty() && kept_.back().place > child.loaded;
  }

  bool used_ = false;
  std::deque<Upload> waiting_;
  std::optional<Trial> trial_;
  std::vector<Kept> kept_;
  std::uint64_t last_place_ = 0;
  std::map<ChildId, Child> children_;
};

}  // namespace scheduler
