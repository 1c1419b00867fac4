// Intrusive containers: a FIFO queue and a doubly linked list. Nodes live in their owner; no
// allocation, O(1) removal. A node is in at most one container per hook.
#pragma once

#include <cstddef>

#include "common/base/assert.h"

namespace varve {

// FIFO through T::*next. Not thread safe.
template <class T, T* T::*next>
class Queue {
 public:
  bool empty() const { return head_ == nullptr; }
  T* front() const { return head_; }
  size_t size() const { return size_; }
  void push(T* node) {
    VARVE_ASSERT(node != nullptr);
    node->*next = nullptr;
    if (tail_ != nullptr) {
      tail_->*next = node;
    } else {
      head_ = node;
    }
    tail_ = node;
    ++size_;
  }
  T* pop() {
    T* node = head_;
    if (node == nullptr) return nullptr;
    head_ = node->*next;
    if (head_ == nullptr) tail_ = nullptr;
    node->*next = nullptr;
    --size_;
    return node;
  }
  // Takes everything from `other`, in order, behind what is here.
  void append(Queue& other) {
    while (T* node = other.pop())
      push(node);
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
  size_t size_ = 0;
};

struct ListHook {
  ListHook* prev = nullptr;
  ListHook* next = nullptr;
  bool linked() const { return prev != nullptr; }
};

// Doubly linked list of T, where T derives from ListHook (or a tagged heir of it).
template <class T, class Hook = ListHook>
class List {
 public:
  List() { head_.prev = head_.next = &head_; }
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  bool empty() const { return head_.next == &head_; }
  size_t size() const { return size_; }
  T* front() const { return empty() ? nullptr : static_cast<T*>(static_cast<Hook*>(head_.next)); }
  T* back() const { return empty() ? nullptr : static_cast<T*>(static_cast<Hook*>(head_.prev)); }
  T* next(T* node) const {
    ListHook* hook = static_cast<Hook*>(node)->next;
    return hook == &head_ ? nullptr : static_cast<T*>(static_cast<Hook*>(hook));
  }
  T* previous(T* node) const {
    ListHook* hook = static_cast<Hook*>(node)->prev;
    return hook == &head_ ? nullptr : static_cast<T*>(static_cast<Hook*>(hook));
  }
  // Behind `after`; null = at the front.
  void insert_after(T* after, T* node) {
    ListHook* hook = after == nullptr ? &head_ : static_cast<Hook*>(after);
    insert(hook, static_cast<Hook*>(node), hook->next);
  }
  void push_back(T* node) { insert(head_.prev, static_cast<Hook*>(node), &head_); }
  void push_front(T* node) { insert(&head_, static_cast<Hook*>(node), head_.next); }
  void remove(T* node) {
    ListHook* hook = static_cast<Hook*>(node);
    VARVE_ASSERT(hook->linked());
    hook->prev->next = hook->next;
    hook->next->prev = hook->prev;
    hook->prev = hook->next = nullptr;
    --size_;
  }
  T* pop_front() {
    T* node = front();
    if (node != nullptr) remove(node);
    return node;
  }

 private:
  void insert(ListHook* before, ListHook* hook, ListHook* after) {
    VARVE_ASSERT(!hook->linked());
    hook->prev = before;
    hook->next = after;
    before->next = hook;
    after->prev = hook;
    ++size_;
  }
  ListHook head_;
  size_t size_ = 0;
};

}  // namespace varve
