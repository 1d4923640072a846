// A first, plain CPU kernel: one task per (n, i) in batch_first, per (i, r, j) in batch_last.
#include <cstdint>
#include <cstring>
#include <vector>

#include "../ks_matmul.h"

namespace ksmm {
namespace {

struct Float32 { using Storage = float; static float read(float v) { return v; } static float write(float v) { return v; } };

inline float from_bits(uint32_t bits) { float v; std::memcpy(&v, &bits, 4); return v; }
inline uint32_t to_bits(float v) { uint32_t bits; std::memcpy(&bits, &v, 4); return bits; }

struct BFloat16 {
  using Storage = uint16_t;
  static float read(uint16_t v) { return from_bits(uint32_t(v) << 16); }
  static uint16_t write(float v) {
    if (v != v) return 0x7fc0;
    uint32_t bits = to_bits(v);
    return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
};

struct Float16 {
  using Storage = uint16_t;
  static float read(uint16_t v) {
    uint32_t magnitude = v & 0x7fffu;
    uint32_t sign = uint32_t(v & 0x8000u) << 16;
    if (magnitude >= 0x7c00u) return from_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    return from_bits(sign | to_bits(from_bits(magnitude << 13) * 0x1p112f));
  }
  static uint16_t write(float v) {
    uint32_t bits = to_bits(v), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return uint16_t(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return uint16_t(sign | 0x7c00u);
    if (magnitude < 0x38800000u) return uint16_t(sign | (to_bits(from_bits(magnitude) + 0.5f) - 0x3f000000u));
    return uint16_t(sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1)) >> 13));
  }
};

struct Call { Problem p; Operands o; };

template <class T>
void rows_first(int64_t begin, int64_t end, void* context) {
  const Call& call = *static_cast<Call*>(context);
  const Problem& p = call.p;
  const int64_t* s = call.o.weight_strides;
  using S = typename T::Storage;
  const S* w = static_cast<const S*>(call.o.weight);
  std::vector<float> sum(p.d);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t n = task / p.a, i = task % p.a;
    const S* x = static_cast<const S*>(call.o.x) + n * call.o.x_stride + i * p.c * p.d;
    S* y = static_cast<S*>(call.o.y) + (n * p.a + i) * p.b * p.d;
    for (int64_t r = 0; r < p.b; ++r) {
      for (auto& v : sum) v = 0;
      for (int64_t k = 0; k < p.c; ++k)
        for (int64_t j = 0; j < p.d; ++j)
          sum[j] += T::read(x[k * p.d + j]) * T::read(w[i * s[0] + r * s[1] + k * s[2] + j * s[3]]);
      for (int64_t j = 0; j < p.d; ++j) y[r * p.d + j] = T::write(sum[j]);
    }
  }
}

template <class T>
void rows_last(int64_t begin, int64_t end, void* context) {
  const Call& call = *static_cast<Call*>(context);
  const Problem& p = call.p;
  const int64_t* s = call.o.weight_strides;
  using S = typename T::Storage;
  const S* w = static_cast<const S*>(call.o.weight);
  constexpr int64_t block = 512;
  float sum[block];
  for (int64_t task = begin; task < end; ++task) {
    const int64_t i = task / (p.b * p.d), r = task / p.d % p.b, j = task % p.d;
    const S* x = static_cast<const S*>(call.o.x) + (i * p.c * p.d + j) * call.o.x_stride;
    S* y = static_cast<S*>(call.o.y) + task * p.batch;
    for (int64_t first = 0; first < p.batch; first += block) {
      const int64_t count = p.batch - first < block ? p.batch - first : block;
      for (int64_t n = 0; n < count; ++n) sum[n] = 0;
      for (int64_t k = 0; k < p.c; ++k) {
        const float weight = T::read(w[i * s[0] + r * s[1] + k * s[2] + j * s[3]]);
        const S* row = x + k * p.d * call.o.x_stride + first;
        for (int64_t n = 0; n < count; ++n) sum[n] += weight * T::read(row[n]);
      }
      for (int64_t n = 0; n < count; ++n) y[first + n] = T::write(sum[n]);
    }
  }
}

template <class T>
void multiply(Call& call, ParallelFor parallel_for) {
  const Problem& p = call.p;
  if (p.layout == Layout::batch_first) parallel_for(p.batch * p.a, rows_first<T>, &call);
  else parallel_for(p.a * p.b * p.d, rows_last<T>, &call);
}

}  // namespace

void multiply_cpu(const Problem& problem, const Operands& operands, ParallelFor parallel_for) {
  Call call{problem, operands};
  if (problem.batch == 0) return;
  if (problem.dtype == Dtype::float32) multiply<Float32>(call, parallel_for);
  else if (problem.dtype == Dtype::float16) multiply<Float16>(call, parallel_for);
  else multiply<BFloat16>(call, parallel_for);
}

}  // namespace ksmm
