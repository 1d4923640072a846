// Runs the CPU's kernel by tiles (AMX) with its instructions in plain C++, on problems of random shapes, and compares
// with a plain sum in double. Each operand is an allocation of exactly its size, for AddressSanitizer.
//
//     tiles CASES SEED
#include "intrinsics.h"

#define KSMM_VARIANT emulated_amx
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "../../ksmm/csrc/cpu/amx.h"
#include "case.h"

using namespace ksmm;
using namespace ksmm::emulated_amx;

namespace {

// One thread, which takes all tasks.
void one_thread(int64_t count, Body body, void* context) { body(0, count, context); }
const ParallelFor parallel_for{3, one_thread};  // which takes the parts of the others, too
constexpr Problem most = {2, 50, 150, 20, 70, Dtype::float32, Layout::batch_first};

enum class Kind { normal, badly_scaled, one_badly_scaled_row, pruned, infinite, next_to_nothing };
constexpr Kind kinds[] = {Kind::normal, Kind::badly_scaled, Kind::one_badly_scaled_row,
                          Kind::pruned, Kind::infinite,     Kind::next_to_nothing};

template <class Element>
void spoil(Case<Element>& one, Kind kind, std::mt19937& random) {
  std::uniform_real_distribution<float> decades(-15, 15);
  const int64_t bad_i = int64_t(random() % uint32_t(one.p.a)), bad_r = int64_t(random() % uint32_t(one.p.b)),
                bad_j = int64_t(random() % uint32_t(one.p.d));
  for (int64_t i = 0; i < one.p.a; ++i)
    for (int64_t r = 0; r < one.p.b; ++r)
      for (int64_t k = 0; k < one.p.c; ++k)
        for (int64_t j = 0; j < one.p.d; ++j) {
          auto& at = one.weight_at(i, r, k, j);
          const bool in_row = i == bad_i && r == bad_r && j == bad_j;
          if (kind == Kind::badly_scaled || (kind == Kind::one_badly_scaled_row && in_row))
            one.put(at, one.get(at) * std::pow(10.0f, decades(random)));
          if (kind == Kind::next_to_nothing) one.put(at, one.get(at) * 0x1p-112f);
          if (kind == Kind::pruned && random() % 3 == 0) one.put(at, 0);
          if (kind == Kind::infinite && in_row && k == 0) one.put(at, INFINITY);
        }
}

// Whether in some row of weights a third of the pairs are 2^21 apart, where the kernel asks for 2^20. Of rows of 33
// numbers over thirty powers of ten one in a hundred is not such by chance, and is rightly vouched for.
template <class Element>
bool has_uneven_row(Case<Element>& one) {
  const auto magnitude = [&](int64_t i, int64_t r, int64_t k, int64_t j) {
    return std::fabs(double(one.get(one.weight_at(i, r, k, j))));
  };
  for (int64_t i = 0; i < one.p.a; ++i)
    for (int64_t r = 0; r < one.p.b; ++r)
      for (int64_t j = 0; j < one.p.d; ++j) {
        int64_t apart = 0;
        for (int64_t k = 0; k + 1 < one.p.c; k += 2) {
          const double even = magnitude(i, r, k, j), odd = magnitude(i, r, k + 1, j);
          apart += std::fmin(even, odd) * 0x1p21 <= std::fmax(even, odd);
        }
        if (3 * apart >= one.p.c / 2) return true;
      }
  return false;
}

// How many cases came out wrong: the product, or whether it is vouched for.
template <class Element>
int wrong_cases(const char* name, int cases, double tolerance, std::mt19937& random) {
  constexpr bool is_float32 = std::is_same<Element, Float32>::value;
  int wrong = 0;
  for (int n = 0; n < cases; ++n) {
    const Kind kind = kinds[n % 6];
    const bool is_bad =
        kind == Kind::badly_scaled || kind == Kind::one_badly_scaled_row || kind == Kind::next_to_nothing;
    if (is_bad && !is_float32) continue;  // 16 bits are not looked at
    Case<Element> one(random, most, is_bad ? 24 : 1);
    spoil(one, kind, random);
    while (is_bad && kind != Kind::next_to_nothing && !has_uneven_row(one)) {
      one = Case<Element>(random, most, 24);
      spoil(one, kind, random);
    }
    const bool vouched_for = multiply_by_tiles<Element>(one.p, one.operands(), parallel_for);
    // one plane is the number itself, infinite or not
    const bool expected = kind == Kind::infinite ? Planes<Element>::count == 1 : !is_bad;
    const double error = expected && kind != Kind::infinite ? one.error() : 0;
    if (vouched_for == expected && error < tolerance && !emulated::tiles().configured) continue;
    ++wrong;
    std::printf("%s, kind %d, %s: %s, error %g\n", name, int(kind), one.text().c_str(),
                vouched_for ? "vouched for" : "left to multiply-adds", error);
  }
  std::printf("%s: %d of %d wrong\n", name, wrong, cases);
  return wrong;
}

}  // namespace

int main(int, char** arguments) {
  const int cases = std::atoi(arguments[1]);
  std::mt19937 random(static_cast<unsigned>(std::atoll(arguments[2])));
  const int wrong = wrong_cases<Float32>("float32", cases, 5e-7, random) +
                    wrong_cases<Float16>("float16", cases, 5e-4, random) +
                    wrong_cases<BFloat16>("bfloat16", cases, 4e-3, random);
  return wrong == 0 ? 0 : 1;
}
