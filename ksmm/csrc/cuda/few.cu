// Products of a handful of rows n, such as the tokens that a language model decodes: they read W once, and little else.
//
// A block takes some r of a block i and of up to eight planes j. It keeps the X that these need in shared memory, by
// plane, so that c is contiguous in both operands; a group of lanes shares a dot product, 16 bytes of W each at a time.
// float32 multiply-adds throughout, in every dtype.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "few.h"
#include "hopper/overlap.cuh"
#include "number.cuh"

namespace ksmm {
namespace {

constexpr int threads = 128, rows_at_a_time = 2;
constexpr int most_shared_bytes = 48 * 1024;
constexpr int64_t most_batch = 32;

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

// The sums of both r of a pair for N rows, complete in all lanes of the group.
template <class T, int N, int LANES>
__device__ inline void multiply_pair(float (&sums)[rows_at_a_time][N], const Bits<T>* const (&rows)[rows_at_a_time],
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
          sums[next][n] = fmaf(to_float<T>(vector.bits[at]), numbers[next][at], sums[next][n]);
    }
  }
#pragma unroll
  for (int next = 0; next < rows_at_a_time; ++next)
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int offset = LANES / 2; offset > 0; offset /= 2)
        sums[next][n] += __shfl_xor_sync(~0u, sums[next][n], offset);
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
    float sums[rows_at_a_time][N] = {};
    multiply_pair<T, N, LANES>(sums, rows, shared + plane * task.pitch, task);
    if (first + group >= all || j0 + plane >= task.d) continue;
#pragma unroll
    for (int next = 0; next < rows_at_a_time; ++next) {
      if (r + next >= min(task.b, r0 + task.rows)) continue;
      const int64_t feature = (i * task.b + r + next) * task.d + j;
      const float bias =
          task.bias == nullptr ? 0.0f : to_float<T>(read_only(static_cast<const Bits<T>*>(task.bias) + feature));
#pragma unroll
      for (int n = 0; n < N; ++n)
        if (lane == n && n0 + n < task.batch)
          static_cast<Bits<T>*>(task.y)[(n0 + n) * task.y_n + feature * task.y_j] = to_bits<T>(sums[next][n] + bias);
    }
  }
}

int rows_of(const Problem& problem) {
  return problem.batch >= 8 ? 8 : problem.batch > 2 ? 4 : static_cast<int>(problem.batch);
}

int64_t padded_c(const Problem& problem) {
  const int64_t size = 16 / size_of(problem.dtype);
  return parts_of(problem.c, size) * size;
}

// A vector more than c needs: planes then begin in different banks.
int64_t shared_bytes(const Problem& problem, int shift) {
  return (padded_c(problem) * size_of(problem.dtype) + 16) * rows_of(problem) << shift;
}

// As many planes as are neighbours in a sector of X, and fit.
int shift_of(const Problem& problem) {
  int shift = problem.d >= 8 ? 3 : problem.d >= 4 ? 2 : problem.d >= 2 ? 1 : 0;
  while (shift > 0 && shared_bytes(problem, shift) > most_shared_bytes) --shift;
  return shift;
}

bool takes(const Problem& problem, const Operands&, const Machine&) {
  return problem.batch <= most_batch && shared_bytes(problem, 0) <= most_shared_bytes;
}

// So many lanes share a dot product that each has at least one vector of it.
int lanes_of(const Problem& problem) {
  const int64_t vectors = padded_c(problem) * size_of(problem.dtype) / 16;
  return vectors >= 32 ? 32 : vectors >= 16 ? 16 : 8;
}

// r of a block: two pairs of them for each group of lanes, or one where there are too few to occupy all
// multiprocessors.
int block_rows(const Problem& problem, const Machine& machine) {
  const int groups = threads / lanes_of(problem);
  const int64_t pairs = problem.a * problem.d * parts_of(problem.b, rows_at_a_time);
  const int of_group = pairs >= 4 * groups * static_cast<int64_t>(machine.multiprocessors) ? 2 : 1;
  return rows_at_a_time * std::max(1, of_group * groups >> shift_of(problem));
}

// Fitted to 94 products on an H200, hot and cold, of 1 to 32 rows: half of them within 5 %, all within 23 %. What one
// block waits for, what all blocks of a multiprocessor compute, and W from device memory.
double seconds(const Problem& problem, const Machine& machine) {
  const int shift = shift_of(problem), rows = block_rows(problem, machine), lanes = lanes_of(problem);
  const double n = rows_of(problem), passes = static_cast<double>(parts_of(problem.batch, rows_of(problem)));
  const double blocks = passes * static_cast<double>(problem.a * parts_of(problem.d, int64_t{1} << shift)) *
                        static_cast<double>(parts_of(problem.b, rows));
  const double share = std::max(1.0, blocks / machine.multiprocessors);
  const double gathered = n * static_cast<double>(padded_c(problem) << shift);
  const int pairs = (rows + rows_at_a_time - 1) / rows_at_a_time;
  const double pairs_of_lane = n * static_cast<double>(parts_of(pairs << shift, threads / lanes));
  const double numbers_of_lane = pairs_of_lane * static_cast<double>(parts_of(padded_c(problem), lanes));
  const double weights = passes * problem.a * problem.b * problem.c * problem.d * size_of(problem.dtype);
  const double waits = 0.15e-9 * gathered + 7e-9 * numbers_of_lane + 12e-9 * pairs_of_lane;
  const double computes = 0.105e-9 * gathered + 36e-9 * pairs_of_lane;
  return (problem.dtype == Dtype::float32 ? 1.55e-6 : 1.82e-6) + waits + share * computes +
         weights / (0.91 * machine.memory_rate);
}

// How many neighbours of X can be read together: those of a plane where there is one, else the same k of several.
int vector_of(const Problem& problem, const Operands& operands, int shift) {
  const auto whole = [&](int vector) {
    return operands.x_stride % vector == 0 &&
           reinterpret_cast<uintptr_t>(operands.x) % (vector * size_of(problem.dtype)) == 0;
  };
  const int most = 16 / static_cast<int>(size_of(problem.dtype));
  if (problem.layout == Layout::batch_last) return 1;
  if (problem.d == 1) return problem.c % most == 0 && whole(most) ? most : 1;
  for (int vector = std::min(most, 1 << shift); vector > 1; vector /= 2)
    if (problem.d % vector == 0 && whole(vector)) return vector;
  return 1;
}

// A task without what belongs to the operands.
FewTask divide(const Problem& problem, const Machine& machine) {
  FewTask task = {};
  task.batch = problem.batch, task.a = problem.a, task.b = problem.b, task.c = problem.c, task.d = problem.d;
  task.shift = shift_of(problem);
  task.padded_c = static_cast<int>(padded_c(problem));
  task.pitch = task.padded_c + 16 / size_of(problem.dtype);
  task.rows = block_rows(problem, machine);
  task.plane_groups = static_cast<int>(parts_of(problem.d, int64_t{1} << task.shift));
  task.row_groups = static_cast<int>(parts_of(problem.b, task.rows));
  return task;
}

template <class T, int N, int LANES>
cudaError_t launch_lanes(const Problem& problem, const Operands& operands, const Machine& machine,
                         cudaStream_t stream) {
  FewTask task = divide(problem, machine);
  const bool first = problem.layout == Layout::batch_first;
  task.x = operands.x, task.weight = operands.weight, task.bias = operands.bias, task.y = operands.y;
  task.x_n = first ? operands.x_stride : 1, task.x_j = first ? 1 : operands.x_stride, task.x_k = problem.d * task.x_j;
  task.y_n = first ? problem.a * problem.b * problem.d : 1, task.y_j = first ? 1 : problem.batch;
  task.vector = vector_of(problem, operands, task.shift);
  task.w_i = operands.weight_strides[0], task.w_r = operands.weight_strides[1], task.w_j = operands.weight_strides[3];
  const int64_t blocks = parts_of(problem.batch, N) * problem.a * task.plane_groups * task.row_groups;
  const int64_t shared = shared_bytes(problem, task.shift);
  if (machine.capability >= 90)
    return hopper::launch_overlapping(few_kernel<T, N, LANES>, blocks, threads, shared, 1, stream, task);
  if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
  few_kernel<T, N, LANES><<<static_cast<unsigned>(blocks), threads, static_cast<size_t>(shared), stream>>>(task);
  return cudaGetLastError();
}

template <class T, int N>
cudaError_t launch_rows(const Problem& problem, const Operands& operands, const Machine& machine, cudaStream_t stream) {
  switch (lanes_of(problem)) {
    case 32: return launch_lanes<T, N, 32>(problem, operands, machine, stream);
    case 16: return launch_lanes<T, N, 16>(problem, operands, machine, stream);
    default: return launch_lanes<T, N, 8>(problem, operands, machine, stream);
  }
}

template <class T>
cudaError_t launch_numbers(const Problem& problem, const Operands& operands, const Machine& machine,
                           cudaStream_t stream) {
  switch (rows_of(problem)) {
    case 1: return launch_rows<T, 1>(problem, operands, machine, stream);
    case 2: return launch_rows<T, 2>(problem, operands, machine, stream);
    case 4: return launch_rows<T, 4>(problem, operands, machine, stream);
    default: return launch_rows<T, 8>(problem, operands, machine, stream);
  }
}

cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace&,
                   cudaStream_t stream) {
  switch (problem.dtype) {
    case Dtype::float16: return launch_numbers<float16>(problem, operands, machine, stream);
    case Dtype::bfloat16: return launch_numbers<bfloat16>(problem, operands, machine, stream);
    default: return launch_numbers<float>(problem, operands, machine, stream);
  }
}

constexpr Configuration family[] = {{"few", true, takes, seconds, launch}};

}  // namespace

Configurations few_configurations() { return {family, 1}; }

}  // namespace ksmm
