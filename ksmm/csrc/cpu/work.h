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

// The tasks 0 … count-1; each is taken by one thread, whichever is free. Threads that share a machine with other work
// are not equally fast, so an even split would wait for the slowest. What a task computes depends on nothing else, so
// the result is the same whoever computes it.
class Tasks {
 public:
  // A thread takes up to `together` neighbouring ones at a time, a sixteenth of all at most, or some where there are
  // very many.
  Tasks(int64_t count, int64_t together)
      : count_(count), chunk_(larger(1, larger(smaller(16, count / 256), smaller(together, count / 16)))) {}

  // Takes [first, last); false when none are left.
  bool take(int64_t& first, int64_t& last) {
    first = __atomic_fetch_add(&next_, chunk_, __ATOMIC_RELAXED);
    last = smaller(first + chunk_, count_);
    return first < count_;
  }

 private:
  int64_t next_ = 0;
  const int64_t count_, chunk_;
};

template <class Worker>
struct Share {
  const Worker& worker;
  Tasks tasks;

  static void body(int64_t, int64_t, void* context) {
    Share& share = *static_cast<Share*>(context);
    share.worker.work(share.tasks);
  }
};

// Runs worker.work(tasks) on the threads of parallel_for, until all tasks are done.
template <class Worker>
void run(const Worker& worker, int64_t count, ParallelFor parallel_for, int64_t together = 1) {
  Share<Worker> share{worker, Tasks(count, together)};
  parallel_for(count, Share<Worker>::body, &share);
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
