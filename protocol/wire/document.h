//! A parsed msgpack value as a flat tape, and a cheap cursor over it.
//!
//! Parsing is one pass of msgpack-cxx's visitor: no recursion, depth and counts bounded (limits.h),
//! every str checked to be UTF-8. Nothing is decoded before it is asked for; raw() gives the exact
//! bytes of any value, which is how keys are taken and how values are relayed. The tape borrows
//! the bytes: they must outlive it.
//!
//! Type tests and lookups never fail loudly: a missing field is a Value that does not exist, and
//! every question to it is answered with "no". See fields.h for reads that report what is missing.
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "protocol/base/bytes.h"
#include "protocol/base/limits.h"
#include "protocol/base/result.h"

namespace protocol {

enum class Type : std::uint8_t { nil, boolean, integer, floating, str, bin, array, map, ext };

//! One value of the tape. Tokens follow each other without gaps, so a value ends where the node
//! after its last descendant begins.
struct Node {
  std::uint32_t begin;  //!< offset of its first byte
  std::uint32_t next;   //!< node after it and everything in it
  std::uint32_t size;   //!< elements of an array, entries of a map, bytes of a str, bin or ext
  Type type;
};

class Value;
class Elements;
class Entries;

class Document {
 public:
  //! Reads exactly one value. On failure the document is empty. Keeps its memory for the next one.
  Status parse(ByteView bytes, const Limits& limits = kLimits);

  Value root() const;
  ByteView bytes() const { return bytes_; }
  const std::vector<Node>& tape() const { return tape_; }

 private:
  friend class Value;
  friend class TapeVisitor;

  ByteView bytes_;
  std::vector<Node> tape_;  //!< the last node is a sentinel at the end of the bytes
  std::vector<std::uint32_t> open_;
};

//! A place in a Document; as cheap to copy as two words.
class Value {
 public:
  Value() = default;
  Value(const Document* document, std::uint32_t index) : document_(document), index_(index) {}

  bool exists() const { return document_ != nullptr; }
  bool is(Type type) const { return exists() && node().type == type; }
  bool is_nil() const { return is(Type::nil); }
  bool is_str() const { return is(Type::str); }
  bool is_bin() const { return is(Type::bin); }
  bool is_array() const { return is(Type::array); }
  bool is_map() const { return is(Type::map); }
  Type type() const { return node().type; }

  std::optional<bool> as_bool() const;
  //! Integers, and floats without a fraction that fit.
  std::optional<std::int64_t> as_int() const;
  std::optional<std::uint64_t> as_uint() const;
  //! Floats and integers.
  std::optional<double> as_double() const;
  std::optional<std::string_view> as_str() const;
  std::optional<ByteView> as_bin() const;
  bool equals(std::string_view text) const { return is_str() && body() == text; }

  //! The exact msgpack bytes of this value.
  ByteView raw() const;
  //! Elements of an array, entries of a map, bytes of a str or bin; 0 for anything else.
  std::size_t size() const { return exists() ? node().size : 0; }

  //! The value under a str key of a map. O(entries); the first of several equal keys wins.
  Value find(std::string_view name) const;

  //! The elements of an array, or of a set as Dask packs one; nothing for anything else.
  Elements elements() const;
  //! The entries of a map, whose keys may be of any type; nothing for anything else.
  Entries entries() const;

  //! The member name of an enum as Dask packs one.
  std::optional<std::string_view> enum_name() const;

  std::uint32_t index() const { return index_; }
  const Document* document() const { return document_; }

 private:
  const Node& node() const { return document_->tape_[index_]; }
  const Node& after() const { return document_->tape_[node().next]; }
  ByteView body() const {
    return ByteView(document_->bytes_.data() + after().begin - node().size, node().size);
  }
  std::uint64_t number() const;
  double real() const;

  const Document* document_ = nullptr;
  std::uint32_t index_ = 0;
};

class Elements {
 public:
  class Iterator {
   public:
    using value_type = Value;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    Iterator(const Document* document, std::uint32_t index) : document_(document), index_(index) {}
    Value operator*() const { return Value(document_, index_); }
    Iterator& operator++() {
      index_ = document_->tape()[index_].next;
      return *this;
    }
    bool operator==(const Iterator& other) const { return index_ == other.index_; }

   private:
    const Document* document_;
    std::uint32_t index_;
  };

  Elements(const Document* document, std::uint32_t first, std::uint32_t last, std::uint32_t count)
      : document_(document), first_(first), last_(last), count_(count) {}
  Iterator begin() const { return {document_, first_}; }
  Iterator end() const { return {document_, last_}; }
  std::size_t size() const { return count_; }

 private:
  const Document* document_;
  std::uint32_t first_;
  std::uint32_t last_;
  std::uint32_t count_;
};

struct Entry {
  Value key;
  Value value;
};

class Entries {
 public:
  class Iterator {
   public:
    using value_type = Entry;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    Iterator(const Document* document, std::uint32_t index) : document_(document), index_(index) {}
    Entry operator*() const {
      return {Value(document_, index_), Value(document_, document_->tape()[index_].next)};
    }
    Iterator& operator++() {
      index_ = document_->tape()[document_->tape()[index_].next].next;
      return *this;
    }
    bool operator==(const Iterator& other) const { return index_ == other.index_; }

   private:
    const Document* document_;
    std::uint32_t index_;
  };

  Entries(const Document* document, std::uint32_t first, std::uint32_t last, std::uint32_t count)
      : document_(document), first_(first), last_(last), count_(count) {}
  Iterator begin() const { return {document_, first_}; }
  Iterator end() const { return {document_, last_}; }
  std::size_t size() const { return count_; }

 private:
  const Document* document_;
  std::uint32_t first_;
  std::uint32_t last_;
  std::uint32_t count_;
};

}  // namespace protocol
