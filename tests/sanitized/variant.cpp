// Runs one variant of the CPU's kernel, KSMM_VARIANT, on problems of random shapes and compares with a plain sum in
// double. Each operand, and all that the kernel allocates, is an allocation of its own, for AddressSanitizer.
//
//     variant CASES SEED
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>

#include "../../ksmm/csrc/cpu/kernel.h"
#include "../threads.h"
#include "case.h"

using namespace ksmm;
using namespace ksmm::KSMM_VARIANT;

namespace {

constexpr Problem sizes[] = {{4, 40, 40, 24, 150, Dtype::float32, Layout::batch_first},
                             {1, 200, 200, 3, 300, Dtype::float32, Layout::batch_first},
                             {2, 20, 20, 100, 60, Dtype::float32, Layout::batch_first},
                             {6, 8, 300, 2, 40, Dtype::float32, Layout::batch_first},
                             {3, 70, 70, 8, 2, Dtype::float32, Layout::batch_first}};

// How many cases came out wrong.
template <class Element>
int wrong_cases(const char* name, Dtype dtype, int cases, double tolerance, std::mt19937& random) {
  int wrong = 0;
  for (int n = 0; n < cases; ++n) {
    Case<Element> one(random, sizes[size_t(n) % std::size(sizes)]);
    one.p.dtype = dtype;
    bodies = 1 + int(random() % 3);
    multiply(one.p, one.operands(), ParallelFor{1 + int64_t(random() % 4), on_threads});
    const double error = one.error(true);
    if (error < tolerance) continue;
    ++wrong;
    std::printf("%s, %s: error %g\n", name, one.text().c_str(), error);
  }
  std::printf("%s: %d of %d wrong\n", name, wrong, cases);
  return wrong;
}

}  // namespace

int main(int, char** arguments) {
  const int cases = std::atoi(arguments[1]);
  std::mt19937 random(static_cast<unsigned>(std::atoll(arguments[2])));
  int wrong = wrong_cases<BFloat16>("bfloat16", Dtype::bfloat16, cases, 4e-3, random);
#if !defined(__AVX512BF16__)  // which is compiled for bfloat16 alone
  wrong += wrong_cases<Float32>("float32", Dtype::float32, cases, 2e-7, random) +
           wrong_cases<Float16>("float16", Dtype::float16, cases, 5e-4, random);
#endif
  return wrong == 0 ? 0 : 1;
}
