// Runs the CPU's kernel by tiles (AMX) with its instructions in plain C++, on problems of random shapes, and compares
// with a plain sum in double. Each operand is an allocation of exactly its size, for AddressSanitizer.
//
//     emulate CASES SEED
#include "intrinsics.h"

#define KSMM_VARIANT emulated_amx
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>

#include "../../ksmm/csrc/cpu/amx.h"

namespace ksmm {

float* allocate(int64_t floats) {
  return static_cast<float*>(::operator new(size_t(floats) * sizeof(float), std::align_val_t{64}));
}
void release(float* memory) noexcept { ::operator delete(memory, std::align_val_t{64}); }

}  // namespace ksmm

using namespace ksmm;
using namespace ksmm::emulated_amx;

namespace {

// One thread, which takes all tasks.
void one_thread(int64_t count, Body body, void* context) { body(0, count, context); }
const ParallelFor parallel_for{3, one_thread};  // which takes the parts of the others, too

enum class Kind { normal, badly_scaled, one_badly_scaled_row, pruned, infinite, next_to_nothing };
constexpr Kind kinds[] = {Kind::normal, Kind::badly_scaled, Kind::one_badly_scaled_row,
                          Kind::pruned, Kind::infinite,     Kind::next_to_nothing};

template <class Element>
struct Case {
  using Stored = typename Element::Stored;
  Problem p;
  int64_t strides[4];
  std::unique_ptr<Stored[]> x, weight, bias, y;

  Case(std::mt19937& random, int64_t shortest_c) {
    const auto between = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    p = {};
    p.a = between(1, 2), p.b = between(1, 50), p.c = between(shortest_c, 150), p.d = between(1, 20);
    p.batch = between(1, 70), p.layout = between(0, 1) ? Layout::batch_first : Layout::batch_last;
    if (between(0, 1)) {
      strides[3] = 1, strides[2] = p.d, strides[1] = p.c * p.d, strides[0] = p.b * p.c * p.d;  // canonical
    } else {
      strides[2] = 1, strides[1] = p.c, strides[3] = p.b * p.c, strides[0] = p.d * p.b * p.c;  // packed
    }
    const auto numbers = [&](int64_t count) {
      std::unique_ptr<Stored[]> made(new Stored[size_t(count)]);
      std::normal_distribution<float> normal;
      for (int64_t n = 0; n < count; ++n) put(made[size_t(n)], normal(random));
      return made;
    };
    x = numbers(p.batch * p.a * p.c * p.d), weight = numbers(p.a * p.b * p.c * p.d);
    if (between(0, 1)) bias = numbers(p.a * p.b * p.d);
    y = numbers(p.batch * p.a * p.b * p.d);
  }

  static void put(Stored& to, float value) { store_some<Element>(&to, broadcast(value), 1); }
  static float get(const Stored& from) { return read<Element>(&from); }

  Stored& weight_at(int64_t i, int64_t r, int64_t k, int64_t j) {
    return weight[size_t(i * strides[0] + r * strides[1] + k * strides[2] + j * strides[3])];
  }
  size_t place(int64_t n, int64_t i, int64_t row, int64_t j, int64_t rows) const {
    const int64_t feature = (i * rows + row) * p.d + j;
    return size_t(p.layout == Layout::batch_first ? n * p.a * rows * p.d + feature : feature * p.batch + n);
  }

  void spoil(Kind kind, std::mt19937& random) {
    std::uniform_real_distribution<float> decades(-15, 15);
    const int64_t bad_i = int64_t(random() % uint32_t(p.a)), bad_r = int64_t(random() % uint32_t(p.b)),
                  bad_j = int64_t(random() % uint32_t(p.d));
    for (int64_t i = 0; i < p.a; ++i)
      for (int64_t r = 0; r < p.b; ++r)
        for (int64_t k = 0; k < p.c; ++k)
          for (int64_t j = 0; j < p.d; ++j) {
            Stored& at = weight_at(i, r, k, j);
            const bool in_row = i == bad_i && r == bad_r && j == bad_j;
            if (kind == Kind::badly_scaled || (kind == Kind::one_badly_scaled_row && in_row))
              put(at, get(at) * std::pow(10.0f, decades(random)));
            if (kind == Kind::next_to_nothing) put(at, get(at) * 0x1p-112f);
            if (kind == Kind::pruned && random() % 3 == 0) put(at, 0);
            if (kind == Kind::infinite && in_row && k == 0) put(at, INFINITY);
          }
  }

  Operands operands() const {
    Operands o = {};
    o.x = x.get(), o.weight = weight.get(), o.bias = bias.get(), o.y = y.get();
    o.x_stride = p.layout == Layout::batch_first ? p.a * p.c * p.d : p.batch;
    for (int n = 0; n < 4; ++n) o.weight_strides[n] = strides[n];
    return o;
  }

  // ‖Y − reference‖ / ‖reference‖.
  double error() {
    double wrong = 0, all = 0;
    for (int64_t n = 0; n < p.batch; ++n)
      for (int64_t i = 0; i < p.a; ++i)
        for (int64_t r = 0; r < p.b; ++r)
          for (int64_t j = 0; j < p.d; ++j) {
            double sum = bias ? get(bias[size_t((i * p.b + r) * p.d + j)]) : 0;
            for (int64_t k = 0; k < p.c; ++k)
              sum += double(get(x[place(n, i, k, j, p.c)])) * get(weight_at(i, r, k, j));
            const double difference = get(y[place(n, i, r, j, p.b)]) - sum;
            wrong += difference * difference, all += sum * sum;
          }
    return std::sqrt(wrong / all);
  }
};

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
    Case<Element> one(random, is_bad ? 24 : 1);
    one.spoil(kind, random);
    const bool vouched_for = multiply_by_tiles<Element>(one.p, one.operands(), parallel_for);
    // one plane is the number itself, infinite or not
    const bool expected = kind == Kind::infinite ? Planes<Element>::count == 1 : !is_bad;
    const double error = expected && kind != Kind::infinite ? one.error() : 0;
    if (vouched_for == expected && error < tolerance && !emulated::tiles().configured) continue;
    ++wrong;
    std::printf("%s, kind %d, %lld,%lld,%lld,%lld, batch %lld: %s, error %g\n", name, int(kind),
                static_cast<long long>(one.p.a), static_cast<long long>(one.p.b), static_cast<long long>(one.p.c),
                static_cast<long long>(one.p.d), static_cast<long long>(one.p.batch),
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
