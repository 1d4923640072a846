// Memory for tiles, and tasks shared among threads.
#pragma once

#include "../ks_matmul.h"
#include "variants.h"
#include "vector.h"

namespace ksmm {
namespace KSMM_VARIANT {

// Aligned, uninitialised memory for float32 numbers.
class Buffer {
 public:
  explicit Buffer(int64_t floats) : floats_(allocate(floats)) {}
  ~Buffer() { release(floats_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  float* get() const { return floats_; }

 private:
  float* floats_;
};

// Neighbouring tasks that one thread begins with, the next of which is `next`. In a cache line of its own.
struct alignas(64) Part {
  int64_t next, last;
};

// The tasks 0 … count-1 as a thread sees them, in parts, one for each thread; each is taken by one thread. A thread
// takes those of its own part first, which are the same at each call: what they read and write may still be in its own
// caches, where threads do not share the last of these. Then it helps others: threads that share a machine with other
// work are not equally fast, so an even split would wait for the slowest. What a task computes depends on nothing else,
// so the result is the same whoever computes it.
class Tasks {
 public:
  Tasks(Part* parts, int64_t count, int64_t own, int64_t chunk)
      : parts_(parts), count_(count), at_(own), chunk_(chunk) {}

  // Takes [first, last); false when none are left.
  bool take(int64_t& first, int64_t& last) {
    for (; seen_ < count_; ++seen_, at_ = at_ + 1 < count_ ? at_ + 1 : 0) {
      Part& part = parts_[at_];
      first = __atomic_fetch_add(&part.next, chunk_, __ATOMIC_RELAXED);
      last = smaller(first + chunk_, part.last);
      if (first < part.last) return true;
    }
    return false;
  }

 private:
  Part* const parts_;
  const int64_t count_;
  int64_t at_, seen_ = 0;
  const int64_t chunk_;
};

template <class Worker>
struct Share {
  const Worker& worker;
  Part* parts;
  int64_t count, chunk;

  static void body(int64_t begin, int64_t, void* context) {
    const Share& share = *static_cast<Share*>(context);
    Tasks tasks(share.parts, share.count, begin, share.chunk);
    share.worker.work(tasks);
  }
};

// Runs worker.work(tasks) on the threads of parallel_for, until all tasks are done. A thread takes up to `together`
// neighbouring ones at a time, a sixteenth of all at most, or some where there are very many.
template <class Worker>
void run(const Worker& worker, int64_t count, ParallelFor parallel_for, int64_t together = 1) {
  const int64_t chunk = larger(1, larger(smaller(16, count / 256), smaller(together, count / 16)));
  const int64_t chunks = divide_up(count, chunk), parts = smaller(chunks, larger(1, parallel_for.threads));
  if (parts == 0) return;
  const Buffer buffer(parts * static_cast<int64_t>(sizeof(Part) / sizeof(float)));
  Share<Worker> share{worker, reinterpret_cast<Part*>(buffer.get()), parts, chunk};
  for (int64_t part = 0; part < parts; ++part)
    share.parts[part] = {part * chunks / parts * chunk, smaller((part + 1) * chunks / parts * chunk, count)};
  parallel_for.run(parts, Share<Worker>::body, &share);
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
