// A product of random shape on random numbers, and its error by a plain sum in double. Each operand is an allocation of
// exactly its size, for AddressSanitizer. Needs KSMM_VARIANT, and element.h of that variant.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <string>

#include "../../ksmm/csrc/cpu/variants.h"

namespace ksmm {

float* allocate(int64_t floats) {
  return static_cast<float*>(::operator new(size_t(floats) * sizeof(float), std::align_val_t{64}));
}
void release(float* memory) noexcept { ::operator delete(memory, std::align_val_t{64}); }

namespace KSMM_VARIANT {

template <class Element>
struct Case {
  using Stored = typename Element::Stored;
  Problem p;
  int64_t x_stride, strides[4];
  std::unique_ptr<Stored[]> x, weight, bias, y;

  // Of sizes up to those of `most`.
  Case(std::mt19937& random, const Problem& most, int64_t shortest_c = 1) {
    const auto between = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    p = {};
    p.a = between(1, most.a), p.b = between(1, most.b), p.c = between(shortest_c, most.c), p.d = between(1, most.d);
    p.batch = between(1, most.batch), p.layout = between(0, 1) ? Layout::batch_first : Layout::batch_last;
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
    const int64_t features = p.a * p.c * p.d;
    const bool first = p.layout == Layout::batch_first;
    const int64_t rows = first ? p.batch : features, row = first ? features : p.batch;
    x_stride = row + (between(0, 2) == 0 ? between(1, 9) : 0);
    x = numbers((rows - 1) * x_stride + row), weight = numbers(features * p.b);
    if (between(0, 1)) bias = numbers(p.a * p.b * p.d);
    y = numbers(p.batch * p.a * p.b * p.d);
  }

  static void put(Stored& to, float value) { store_some<Element>(&to, broadcast(value), 1); }
  static float get(const Stored& from) { return read<Element>(&from); }

  Stored& weight_at(int64_t i, int64_t r, int64_t k, int64_t j) {
    return weight[size_t(i * strides[0] + r * strides[1] + k * strides[2] + j * strides[3])];
  }
  size_t place(int64_t n, int64_t feature, int64_t stride) const {
    return size_t(p.layout == Layout::batch_first ? n * stride + feature : feature * stride + n);
  }

  std::string text() const {
    const auto number = [](int64_t of) { return std::to_string(of); };
    return number(p.a) + "," + number(p.b) + "," + number(p.c) + "," + number(p.d) + ", batch " + number(p.batch);
  }

  Operands operands() const {
    Operands o = {};
    o.x = x.get(), o.weight = weight.get(), o.bias = bias.get(), o.y = y.get();
    o.x_stride = x_stride;
    for (int n = 0; n < 4; ++n) o.weight_strides[n] = strides[n];
    return o;
  }

  // ‖Y − reference‖ over ‖reference‖, or over the norm of what the reference would be if no product of its sums were
  // negative, which does not cancel.
  double error(bool of_magnitudes = false) {
    double wrong = 0, all = 0;
    const int64_t y_stride = p.layout == Layout::batch_first ? p.a * p.b * p.d : p.batch;
    for (int64_t n = 0; n < p.batch; ++n)
      for (int64_t i = 0; i < p.a; ++i)
        for (int64_t r = 0; r < p.b; ++r)
          for (int64_t j = 0; j < p.d; ++j) {
            double sum = bias ? get(bias[size_t((i * p.b + r) * p.d + j)]) : 0, magnitude = std::fabs(sum);
            for (int64_t k = 0; k < p.c; ++k) {
              const double product =
                  double(get(x[place(n, (i * p.c + k) * p.d + j, x_stride)])) * get(weight_at(i, r, k, j));
              sum += product, magnitude += std::fabs(product);
            }
            const double difference = get(y[place(n, (i * p.b + r) * p.d + j, y_stride)]) - sum;
            wrong += difference * difference, all += of_magnitudes ? magnitude * magnitude : sum * sum;
          }
    return std::sqrt(wrong / all);
  }
};

}  // namespace KSMM_VARIANT
}  // namespace ksmm
