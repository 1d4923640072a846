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

// Copies X of the block's planes, for N rows from n on: zeros beyond c, d and the batch. Neighbouring threads read
// neighbours: j in batch_first, n in batch_last.
template <class T, int N>
__device__ inline void gather_rows(Bits<T>* shared, const FewTask& task, int64_t i, int64_t j, int64_t n) {
  const auto* x = static_cast<const Bits<T>*>(task.x) + i * task.c * task.d * task.x_j;
  const auto copy = [&](int own_n, int plane, int k) {
    const bool there = k < task.c && j + plane < task.d && n + own_n < task.batch;
    shared[((own_n << task.shift) + plane) * task.pitch + k] =
        there ? read_only(x + (n + own_n) * task.x_n + k * task.x_k + (j + plane) * task.x_j) : Bits<T>(0);
  };
  const int elements = task.padded_c << task.shift, mask = (1 << task.shift) - 1;
  if (task.x_n == 1) {
    for (int at = threadIdx.x; at < N * elements; at += threads) copy(at % N, at / N & mask, at / N >> task.shift);
  } else {
#pragma unroll
    for (int own_n = 0; own_n < N; ++own_n)
      for (int at = threadIdx.x; at < elements; at += threads) copy(own_n, at & mask, at >> task.shift);
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
__global__ void __launch_bounds__(threads) few_kernel(const FewTask task) {
  extern __shared__ uint4 memory[];
  auto* shared = reinterpret_cast<Bits<T>*>(memory);
  hopper::wait_for_kernels_before();
  const int row_group = blockIdx.x % task.row_groups, rest = blockIdx.x / task.row_groups;
  const int64_t j0 = static_cast<int64_t>(rest % task.plane_groups) << task.shift, part = rest / task.plane_groups;
  const int64_t r0 = static_cast<int64_t>(row_group) * task.rows, i = part % task.a, n0 = part / task.a * N;
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

double seconds(const Problem& problem, const Machine& machine) {
  const double weights = static_cast<double>(problem.a) * problem.b * problem.c * problem.d;
  const double passes = static_cast<double>(parts_of(problem.batch, rows_of(problem)));
  const double memory = passes * weights * size_of(problem.dtype) / (0.4 * machine.memory_rate);
  return 3.5e-6 + std::max(memory, 2 * weights * problem.batch / (0.15 * machine.float_rate));
}

// A task without what belongs to the operands. A block has two pairs of r for each group of lanes, or one where there
// are too few of them to occupy all multiprocessors.
FewTask divide(const Problem& problem, const Machine& machine, int lanes) {
  FewTask task = {};
  task.batch = problem.batch, task.a = problem.a, task.b = problem.b, task.c = problem.c, task.d = problem.d;
  task.shift = shift_of(problem);
  task.padded_c = static_cast<int>(padded_c(problem));
  task.pitch = task.padded_c + 16 / size_of(problem.dtype);
  const int groups = threads / lanes;
  const int64_t pairs = problem.a * problem.d * parts_of(problem.b, rows_at_a_time);
  const int of_group = pairs >= 4 * groups * static_cast<int64_t>(machine.multiprocessors) ? 2 : 1;
  task.rows = rows_at_a_time * std::max(1, of_group * groups >> task.shift);
  task.plane_groups = static_cast<int>(parts_of(problem.d, int64_t{1} << task.shift));
  task.row_groups = static_cast<int>(parts_of(problem.b, task.rows));
  return task;
}

template <class T, int N, int LANES>
cudaError_t launch_lanes(const Problem& problem, const Operands& operands, const Machine& machine,
                         cudaStream_t stream) {
  FewTask task = divide(problem, machine, LANES);
  const bool first = problem.layout == Layout::batch_first;
  task.x = operands.x, task.weight = operands.weight, task.bias = operands.bias, task.y = operands.y;
  task.x_n = first ? operands.x_stride : 1, task.x_j = first ? 1 : operands.x_stride, task.x_k = problem.d * task.x_j;
  task.y_n = first ? problem.a * problem.b * problem.d : 1, task.y_j = first ? 1 : problem.batch;
  task.w_i = operands.weight_strides[0], task.w_r = operands.weight_strides[1], task.w_j = operands.weight_strides[3];
  const int64_t blocks = parts_of(problem.batch, N) * problem.a * task.plane_groups * task.row_groups;
  const int64_t shared = shared_bytes(problem, task.shift);
  if (machine.capability >= 90)
    return hopper::launch_overlapping(few_kernel<T, N, LANES>, blocks, threads, shared, 1, stream, task);
  if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
  few_kernel<T, N, LANES><<<static_cast<unsigned>(blocks), threads, static_cast<size_t>(shared), stream>>>(task);
  return cudaGetLastError();
}

// So many lanes for a dot product that each has at least one vector of it.
template <class T, int N>
cudaError_t launch_rows(const Problem& problem, const Operands& operands, const Machine& machine, cudaStream_t stream) {
  const int64_t vectors = padded_c(problem) / vector_size<T>;
  if (vectors >= 32) return launch_lanes<T, N, 32>(problem, operands, machine, stream);
  return vectors >= 16 ? launch_lanes<T, N, 16>(problem, operands, machine, stream)
                       : launch_lanes<T, N, 8>(problem, operands, machine, stream);
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
