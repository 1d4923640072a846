// Shares tasks among threads as the CPU's kernel does, in random numbers, and counts how often each is taken.
//
//     share CASES SEED
#define KSMM_VARIANT shared_tasks
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "../../ksmm/csrc/cpu/work.h"
#include "../threads.h"

using namespace ksmm;
using namespace ksmm::shared_tasks;

namespace {

// Counts tasks. Nobody takes a second time before `all` have taken some.
struct Counter {
  std::vector<std::atomic<int>>& taken;
  std::vector<std::atomic<int>>& first;  // whether a thread began with it
  std::atomic<int>& begun;
  int all;

  void work(Tasks& tasks) const {
    bool is_first = true;
    for (int64_t begin, end; tasks.take(begin, end);) {
      for (int64_t task = begin; task < end; ++task) ++taken[size_t(task)];
      if (!is_first) continue;
      is_first = false;
      ++first[size_t(begin)];
      ++begun;
      while (begun.load() < all) std::this_thread::yield();
    }
  }
};

// The tasks that were not taken once; and, with a thread for each part, the parts that nobody began with.
int wrong_tasks(std::mt19937& random) {
  const auto up_to = [&](int most) { return int(random() % unsigned(most + 1)); };
  const int64_t count = up_to(3) == 0 ? up_to(20) : up_to(20000);
  const int threads = 1 + up_to(up_to(9) == 0 ? 200 : 8), together = 1 + up_to(40);
  bodies = up_to(2) == 0 ? 1 + up_to(threads - 1) : threads;
  std::vector<std::atomic<int>> taken(size_t(count) + 1), first(size_t(count) + 1);
  std::atomic<int> begun{0};
  const int64_t most = larger(16, together);  // tasks taken at a time
  const bool each_has_one = bodies == threads && threads <= 9 && count >= threads * most;
  const int all = each_has_one ? threads : 1;
  run(Counter{taken, first, begun, all}, count, ParallelFor{threads, on_threads}, together);
  int wrong = 0, beginnings = 0;
  for (int64_t task = 0; task < count; ++task) {
    wrong += taken[size_t(task)] != 1;
    beginnings += first[size_t(task)] == 1;
  }
  if (each_has_one) {
    wrong += beginnings != threads;
    for (int part = 0; part < threads; ++part) {
      bool found = false;
      for (int64_t task = count * part / threads - most; task <= count * part / threads + most; ++task)
        found = found || (task >= 0 && task < count && first[size_t(task)] == 1);
      wrong += !found;
    }
  }
  if (wrong)
    std::printf("%lld tasks, %d threads of %d, %d together: %d wrong\n", static_cast<long long>(count), bodies, threads,
                together, wrong);
  return wrong;
}

}  // namespace

int main(int, char** arguments) {
  const int cases = std::atoi(arguments[1]);
  std::mt19937 random(static_cast<unsigned>(std::atoll(arguments[2])));
  int wrong = 0;
  for (int at = 0; at < cases; ++at) wrong += wrong_tasks(random) != 0;
  std::printf("%d of %d wrong\n", wrong, cases);
  return wrong == 0 ? 0 : 1;
}
