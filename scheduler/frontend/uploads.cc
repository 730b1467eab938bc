//! See uploads.h.
#include "scheduler/frontend/uploads.h"

#include <utility>

namespace scheduler {

Uploads::Kept* Uploads::first_after(std::uint64_t place) {
  for (Kept& kept : kept_) {
    if (kept.place > place) return &kept;
  }
  return nullptr;
}

Upload* Uploads::next(ChildId id) {
  Child& child = children_.at(id);
  if (child.loading) return nullptr;
  if (Kept* kept = first_after(child.loaded)) {
    child.loading = kept->upload.id;
    child.loading_place = kept->place;
    return &kept->upload;
  }
  if (trial_ || waiting_.empty()) return nullptr;
  trial_ = Trial{id, std::move(waiting_.front())};
  waiting_.pop_front();
  child.loading = trial_->upload.id;
  return &trial_->upload;
}

bool Uploads::keeps(ChildId id) const {
  const Child& child = children_.at(id);
  return child.loading || behind(child) || (!trial_ && !waiting_.empty());
}

std::optional<UploadId> Uploads::loading(ChildId id) const {
  const auto found = children_.find(id);
  return found == children_.end() ? std::nullopt : found->second.loading;
}

std::optional<ChildId> Uploads::abandoned() const {
  if (!trial_ || !trial_->upload.abandoned || !trial_->upload.abandoned()) return std::nullopt;
  return trial_->child;
}

bool Uploads::finish(ChildId id, bool loaded) {
  Child& child = children_.at(id);
  child.loading.reset();
  if (!on_trial(id)) {
    // One that fails here only is not tried again: a graph that needs it will say so.
    child.loaded = child.loading_place;
    return false;
  }
  if (loaded) {
    kept_.push_back({++last_place_, std::move(trial_->upload)});
    kept_.back().upload.abandoned = nullptr;
    child.loaded = last_place_;
  }
  trial_.reset();
  return true;
}

std::optional<Uploads::Loss> Uploads::remove_child(ChildId id) {
  const std::optional<UploadId> upload = loading(id);
  children_.erase(id);
  if (!upload) return std::nullopt;
  if (on_trial(id)) {
    trial_.reset();
    return Loss{*upload, true, true};
  }
  bool forgotten = false;
  for (Kept& kept : kept_) {
    if (kept.upload.id == *upload) forgotten = ++kept.upload.deaths >= kDeathsMax;
  }
  if (forgotten) forget(*upload);
  return Loss{*upload, false, forgotten};
}

void Uploads::forget(UploadId id) {
  std::erase_if(kept_, [id](const Kept& kept) { return kept.upload.id == id; });
}

}  // namespace scheduler
