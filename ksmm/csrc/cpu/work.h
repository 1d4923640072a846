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

// All tasks as a thread sees them, in parts, one for each thread; each task is taken by one thread. A thread takes
// those of its own part first, which are the same at each call: what they read and write may still be in its own
// caches, where threads do not share the last of these. Then it helps others: threads that share a machine with other
// work are not equally fast, so an even split would wait for the slowest. What a task computes depends on nothing else,
// so the result is the same whoever computes it.
class Tasks {
 public:
  // It begins with part `own`, and takes `chunk` neighbouring tasks at a time.
  Tasks(Part* parts, int64_t part_count, int64_t own, int64_t chunk)
      : parts_(parts), part_count_(part_count), chunk_(chunk), at_(own) {}

  // Takes [first, last); false when none are left.
  bool take(int64_t& first, int64_t& last) {
    for (; seen_ < part_count_; ++seen_, at_ = at_ + 1 < part_count_ ? at_ + 1 : 0) {
      Part& part = parts_[at_];
      first = __atomic_fetch_add(&part.next, chunk_, __ATOMIC_RELAXED);
      last = smaller(first + chunk_, part.last);
      if (first < part.last) return true;
    }
    return false;
  }

 private:
  Part* const parts_;
  const int64_t part_count_, chunk_;
  int64_t at_, seen_ = 0;  // a part; how many of them have no tasks left
};

template <class Worker>
struct Share {
  static constexpr int64_t most_parts = 64;  // more threads begin with the same part, two or three of them
  const Worker& worker;
  const int64_t threads, part_count, chunk;
  Part parts[most_parts];

  Share(const Worker& worker_of_all, int64_t thread_count, int64_t tasks_at_a_time)  // parts are as yet anything
      : worker(worker_of_all),
        threads(thread_count),
        part_count(smaller(thread_count, most_parts)),
        chunk(tasks_at_a_time) {}

  static void body(int64_t thread, int64_t, void* context) {
    Share& share = *static_cast<Share*>(context);
    Tasks tasks(share.parts, share.part_count, thread * share.part_count / share.threads, share.chunk);
    share.worker.work(tasks);
  }
};

// Runs worker.work(tasks) on the threads of parallel_for, until all of the tasks 0 … count-1 are done. A thread takes
// up to `together` neighbouring ones at a time, a sixteenth of all at most, or some where there are very many.
template <class Worker>
void run(const Worker& worker, int64_t count, ParallelFor parallel_for, int64_t together = 1) {
  const int64_t chunk = larger(1, larger(smaller(16, count / 256), smaller(together, count / 16)));
  const int64_t chunks = divide_up(count, chunk), threads = smaller(chunks, larger(1, parallel_for.threads));
  Share<Worker> share(worker, threads, chunk);
  for (int64_t part = 0; part < share.part_count; ++part) {
    const int64_t first = part * chunks / share.part_count, last = (part + 1) * chunks / share.part_count;
    share.parts[part] = {first * chunk, smaller(last * chunk, count)};
  }
  if (threads > 0) parallel_for.run(threads, Share<Worker>::body, &share);
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
