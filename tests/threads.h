// Threads of a test's own for the CPU's kernel, instead of PyTorch's.
#pragma once

#include <thread>
#include <vector>

#include "../ksmm/csrc/ks_matmul.h"

namespace ksmm {

inline int bodies = 1;  // threads that there are, however many were asked for

// Neighbouring parts to each of them.
inline void on_threads(int64_t count, Body body, void* context) {
  std::vector<std::thread> threads;
  for (int at = 0; at < bodies; ++at) {
    const int64_t begin = at * count / bodies, end = (at + 1) * count / bodies;
    if (begin < end) threads.emplace_back([=] { body(begin, end, context); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ksmm
