// Products of a handful of rows n, such as the tokens that a language model decodes: they read W once, and little else.
//
// A block takes some r of a block i and of up to eight planes j. It keeps the X that these need in shared memory, by
// plane, so that c is contiguous in both operands; a group of lanes shares a dot product, 16 bytes of W each at a time.
// float32 multiply-adds throughout, in every dtype.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "few_sums.cuh"
#include "hopper/overlap.cuh"
#include "number.cuh"

namespace ksmm::few {

constexpr int threads = 128, rows_at_a_time = 2;

struct FewTask {
  const void* x;
  const void* weight;
  const void* bias;  // or null
  void* y;
  int64_t batch, a, b, c, d;
  int64_t x_n, x_k, x_j;         // elements of X from one n, k, j to the next
  int64_t y_n, y_j;              // elements of Y from one n, and one feature, to the next
  int64_t w_i, w_r, w_j;         // elements of W from one i, r, j to the next; its k are contiguous
  int shift;                     // a block has 2^shift planes j
  int vector;                    // neighbours of X that are read together
  int padded_c, pitch;           // c as whole vectors; elements from one row of X in shared memory to the next
  int rows;                      // r of a block
  int plane_groups, row_groups;  // blocks along j and r
};

template <class T>
constexpr int vector_size = 16 / static_cast<int>(sizeof(Bits<T>));

// The numbers k .. of a row of W, zeros beyond c.
template <class T>
__device__ inline void read_weights(float (&numbers)[vector_size<T>], const Bits<T>* row, int64_t k, int64_t c) {
  constexpr int size = vector_size<T>;
  if (k + size <= c) {
    const Vector<T, size> vector = load_vector<T, size>(row + k);
#pragma unroll
    for (int at = 0; at < size; ++at) numbers[at] = to_float<T>(vector.bits[at]);
  } else {
#pragma unroll
    for (int at = 0; at < size; ++at) numbers[at] = k + at < c ? to_float<T>(read_only(row + k + at)) : 0.0f;
  }
}

// Copies X of the block's planes, for N rows from n on: zeros beyond c, d and the batch. A thread takes V neighbours of
// one n, along k in the one plane there is, or along j in several; many of them before it keeps the first, since they
// come from far.
template <class T, int N, int V, bool ALONG_K>
__device__ inline void gather_vectors(Bits<T>* shared, const FewTask& task, int64_t i, int64_t j, int64_t n) {
  constexpr int ahead = 8, lanes = threads / N;
  const bool neighbours_in_n = task.x_n == 1;
  const int own_n = neighbours_in_n ? threadIdx.x % N : threadIdx.x / lanes;
  const int lane = neighbours_in_n ? threadIdx.x / N : threadIdx.x % lanes;
  constexpr int shift_of_v = V == 8 ? 3 : V == 4 ? 2 : V == 2 ? 1 : 0;
  const int shift = ALONG_K ? 0 : task.shift - shift_of_v, items = (ALONG_K ? task.padded_c / V : task.padded_c)
                                                                   << shift;
  const auto* x = static_cast<const Bits<T>*>(task.x) + i * task.c * task.d * task.x_j + (n + own_n) * task.x_n;
  Bits<T>* row = shared + (own_n << task.shift) * task.pitch;
  const auto k_of = [&](int item) { return ALONG_K ? item * V : item >> shift; };
  const auto plane_of = [&](int item) { return ALONG_K ? 0 : (item & ((1 << shift) - 1)) * V; };
  for (int first = lane; first < items; first += lanes * ahead) {
    Vector<T, V> vectors[ahead];
#pragma unroll
    for (int next = 0; next < ahead; ++next) {
      const int item = first + next * lanes, k = k_of(item), plane = plane_of(item);
      const bool there = item < items && k < task.c && j + plane < task.d && n + own_n < task.batch;
      vectors[next] = there ? load_vector<T, V>(x + k * task.x_k + (j + plane) * task.x_j) : Vector<T, V>{};
    }
#pragma unroll
    for (int next = 0; next < ahead; ++next) {
      const int item = first + next * lanes, k = k_of(item), plane = plane_of(item);
      if (item >= items) break;
      if constexpr (ALONG_K) {
        *reinterpret_cast<Vector<T, V>*>(row + k) = vectors[next];
      } else {
#pragma unroll
        for (int at = 0; at < V; ++at) row[(plane + at) * task.pitch + k] = vectors[next].bits[at];
      }
    }
  }
}

template <class T, int N>
__device__ inline void gather_rows(Bits<T>* shared, const FewTask& task, int64_t i, int64_t j, int64_t n) {
  constexpr int size = vector_size<T>;
  if (task.vector == 1) {
    gather_vectors<T, N, 1, false>(shared, task, i, j, n);
  } else if (task.shift == 0) {
    gather_vectors<T, N, size, true>(shared, task, i, j, n);
  } else if (task.vector == 2) {
    gather_vectors<T, N, 2, false>(shared, task, i, j, n);
  } else if (task.vector == 4) {
    gather_vectors<T, N, 4, false>(shared, task, i, j, n);
  } else {
    gather_vectors<T, N, size, false>(shared, task, i, j, n);
  }
}

// Brings the block's rows of W into L2, where a kernel before this one may still write them.
template <class T>
__device__ inline void prefetch_weights(const FewTask& task, int64_t i, int64_t j, int64_t r) {
  constexpr int line = 128 / static_cast<int>(sizeof(Bits<T>));
  const auto* weight = static_cast<const Bits<T>*>(task.weight) + i * task.w_i;
  const int lines = (static_cast<int>(task.c) + line - 1) / line, all = lines * task.rows << task.shift;
  for (int at = threadIdx.x; at < all; at += threads) {
    const int row = at / lines, plane = row / task.rows;
    const int64_t own_r = min(r + row % task.rows, task.b - 1), own_j = min(j + plane, task.d - 1);
    const auto* address = weight + own_j * task.w_j + own_r * task.w_r + at % lines * line;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
  }
}

// What a lane adds to the sums of both r of a pair for N rows, in the order (r, n).
template <class T, int N, int LANES>
__device__ inline void multiply_pair(float (&sums)[rows_at_a_time * N], const Bits<T>* const (&rows)[rows_at_a_time],
                                     const Bits<T>* x, const FewTask& task) {
  constexpr int size = vector_size<T>;
  for (int k = threadIdx.x % LANES * size; k < task.padded_c; k += LANES * size) {
    float numbers[rows_at_a_time][size];
#pragma unroll
    for (int next = 0; next < rows_at_a_time; ++next) read_weights<T>(numbers[next], rows[next], k, task.c);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const uint4 words = *reinterpret_cast<const uint4*>(x + (n << task.shift) * task.pitch + k);
      Vector<T, size> vector;
      memcpy(&vector, &words, sizeof vector);
#pragma unroll
      for (int at = 0; at < size; ++at)
#pragma unroll
        for (int next = 0; next < rows_at_a_time; ++next)
          sums[next * N + n] = fmaf(to_float<T>(vector.bits[at]), numbers[next][at], sums[next * N + n]);
    }
  }
}

// Adds up what the lanes of a group have, and stores it: each lane what it keeps (share_sums), of the r and n there
// are.
template <class T, int N, int LANES>
__device__ inline void store_pair(float (&sums)[rows_at_a_time * N], const FewTask& task, int64_t feature, int64_t n0,
                                  int rows) {
  constexpr bool compensated = std::is_same_v<T, float>;
  constexpr int all = rows_at_a_time * N, kept = all > LANES ? all / LANES : 1, sharers = LANES > all ? LANES / all : 1;
  float lost[all] = {};
  share_sums<compensated, all, LANES>(sums, lost);
  const int lane = static_cast<int>(threadIdx.x) % LANES;
  if (lane % sharers != 0) return;
#pragma unroll
  for (int at = 0; at < kept; ++at) {
    const int own = lane / sharers * kept + at, n = own % N, next = own / N;
    if (n0 + n < task.batch && next < rows)
      static_cast<Bits<T>*>(task.y)[(n0 + n) * task.y_n + (feature + next * task.d) * task.y_j] =
          to_bits<T>(with_lost(sums[at], lost[at]));
  }
}

template <class T, int N, int LANES>
__global__ void __launch_bounds__(threads, 4) few_kernel(const FewTask task) {
  extern __shared__ uint4 memory[];
  auto* shared = reinterpret_cast<Bits<T>*>(memory);
  const int row_group = blockIdx.x % task.row_groups, rest = blockIdx.x / task.row_groups;
  const int64_t j0 = static_cast<int64_t>(rest % task.plane_groups) << task.shift, part = rest / task.plane_groups;
  const int64_t r0 = static_cast<int64_t>(row_group) * task.rows, i = part % task.a, n0 = part / task.a * N;
  prefetch_weights<T>(task, i, j0, r0);
  hopper::wait_for_kernels_before();
  gather_rows<T, N>(shared, task, i, j0, n0);
  __syncthreads();

  const int pairs = (task.rows + rows_at_a_time - 1) / rows_at_a_time, all = pairs << task.shift;
  const auto* weight = static_cast<const Bits<T>*>(task.weight) + i * task.w_i;
  const int group = static_cast<int>(threadIdx.x) / LANES, lane = static_cast<int>(threadIdx.x) % LANES;
  // All lanes of a warp run as often, since the shuffles are of whole warps: what is not there is computed twice.
  for (int first = 0; first < all; first += threads / LANES) {
    const int pair = min(first + group, all - 1), plane = pair / pairs;
    const int64_t r = r0 + pair % pairs * rows_at_a_time, j = min(j0 + plane, task.d - 1);
    const Bits<T>* rows[rows_at_a_time];
#pragma unroll
    for (int next = 0; next < rows_at_a_time; ++next)
      rows[next] = weight + j * task.w_j + min(r + next, task.b - 1) * task.w_r;
    float sums[rows_at_a_time * N] = {};
    if (task.bias != nullptr && lane == 0) {  // it comes beside W; behind the sums all would wait for it
#pragma unroll
      for (int next = 0; next < rows_at_a_time; ++next) {
        const int64_t feature = (i * task.b + min(r + next, task.b - 1)) * task.d + j;
        const float bias = to_float<T>(read_only(static_cast<const Bits<T>*>(task.bias) + feature));
#pragma unroll
        for (int n = 0; n < N; ++n) sums[next * N + n] = bias;
      }
    }
    multiply_pair<T, N, LANES>(sums, rows, shared + plane * task.pitch, task);
    const bool there = first + group < all && j0 + plane < task.d;
    const int64_t own = there ? min(task.b, r0 + task.rows) - r : 0;
    store_pair<T, N, LANES>(sums, task, (i * task.b + r) * task.d + j, n0, static_cast<int>(own));
  }
}

}  // namespace ksmm::few
