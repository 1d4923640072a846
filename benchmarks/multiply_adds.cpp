// How many float32 operations a second the processors reach that do nothing but multiply-adds in registers: what no
// kernel can be faster than.
//
//     c++ -O3 -std=c++17 -march=native -ffp-contract=fast -pthread multiply_adds.cpp -o multiply_adds
//     ./multiply_adds 2    # threads
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

#if defined(__AVX512F__)
constexpr int lanes = 16;
#elif defined(__AVX__)
constexpr int lanes = 8;
#else
constexpr int lanes = 4;
#endif
constexpr int chains = 10;  // each waits for itself
using Vector = float __attribute__((vector_size(4 * lanes)));
constexpr int steps = 200000, rounds = 200;

// The most operations a second of some rounds; `kept` is for the compiler not to leave them out.
double fastest(float& kept) {
  Vector sums[chains] = {};
  Vector factor, addend;
  for (int lane = 0; lane < lanes; ++lane) factor[lane] = 0.999f, addend[lane] = 0.001f;
  double most = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int step = 0; step < steps; ++step) {
      for (Vector& sum : sums) sum = sum * factor + addend;
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    const double speed = 2.0 * lanes * chains * steps / taken.count();
    most = speed > most ? speed : most;
  }
  for (const Vector& sum : sums) kept += sum[0];
  return most;
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = count == 2 ? std::atoi(arguments[1]) : 0;
  if (threads < 1) {
    std::fprintf(stderr, "say how many threads: %s 2\n", arguments[0]);
    return 2;
  }
  std::vector<std::thread> all;
  std::vector<double> speeds(threads);
  std::vector<float> kept(threads);
  for (int at = 0; at < threads; ++at)
    all.emplace_back([&, at] {
      float own = 0;
      speeds[at] = fastest(own);
      kept[at] = own;
    });
  double sum = 0;
  for (int at = 0; at < threads; ++at) {
    all[at].join();
    sum += speeds[at];
    std::printf("%.1f GFLOP/s\n", speeds[at] / 1e9);
  }
  std::printf("%.1f GFLOP/s together%s\n", sum / 1e9, kept[0] < 0 ? "." : "");
}
