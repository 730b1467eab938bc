//! The tree and its lazy opening; see metadata.h.
#include "scheduler/shell/metadata.h"

#include "protocol/wire/message.h"

namespace scheduler {

using protocol::KeyView;

Metadata::Node* Metadata::Node::find(KeyView key) {
  for (auto& [name, child] : children) {
    if (name.view() == key) return child.get();
  }
  return nullptr;
}

bool Metadata::Node::open() {
  if (!value) return true;
  if (value->kind != protocol::Payload::Kind::inline_value) return false;
  protocol::Message message;
  protocol::Frames frames{value->header};
  frames.insert(frames.end(), value->frames.begin(), value->frames.end());
  if (!message.reset(std::move(frames)) || !message.root().is_map()) return false;
  if (protocol::as_marker(message.root())) return false;
  for (const auto [name, inner] : message.root().entries()) {
    const auto key = message.key(name);
    auto payload = message.payload(inner);
    if (!key || !payload) return false;
    auto child = std::make_unique<Node>();
    child->value = std::move(*payload);
    children.emplace_back(protocol::Key{std::string(key->bytes)}, std::move(child));
  }
  value = nullptr;
  return true;
}

void Metadata::set(std::span<const KeyView> path, protocol::PayloadRef value) {
  Node* node = root_.get();
  for (const KeyView key : path) {
    if (!node->open()) {
      node->value = nullptr;
      node->children.clear();
    }
    Node* next = node->find(key);
    if (next == nullptr) {
      node->children.emplace_back(protocol::Key{std::string(key.bytes)}, std::make_unique<Node>());
      next = node->children.back().second.get();
    }
    node = next;
  }
  node->children.clear();
  node->value = std::move(value);
}

std::optional<KeyView> Metadata::write(std::span<const KeyView> path,
                                       protocol::MessageWriter& out) {
  Node* node = root_.get();
  for (const KeyView key : path) {
    node = node->open() ? node->find(key) : nullptr;
    if (node == nullptr) return key;
  }
  // Depth first with a stack of our own.
  std::vector<Node*> stack{node};
  std::vector<KeyView> names{KeyView{}};
  while (!stack.empty()) {
    Node* top = stack.back();
    const KeyView name = names.back();
    stack.pop_back();
    names.pop_back();
    if (!name.bytes.empty()) out.key(name);
    if (top->value) {
      out.payload(top->value);
      continue;
    }
    out.map(static_cast<std::uint32_t>(top->children.size()));
    for (auto child = top->children.rbegin(); child != top->children.rend(); ++child) {
      stack.push_back(child->second.get());
      names.push_back(child->first.view());
    }
  }
  return std::nullopt;
}

std::string Metadata::plain_map(KeyView name) {
  Node* node = root_->find(name);
  if (node == nullptr || !node->open()) return {};
  std::string entries;
  std::uint32_t count = 0;
  for (const auto& [key, child] : node->children) {
    if (!child->value || child->value->kind != protocol::Payload::Kind::inline_value) continue;
    entries += key.bytes;
    entries += child->value->header.view();
    ++count;
  }
  std::string map{'\xdf'};
  for (int shift = 24; shift >= 0; shift -= 8) map += static_cast<char>(count >> shift);
  return map + entries;
}

}  // namespace scheduler
