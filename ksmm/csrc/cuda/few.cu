// Which products of few rows, or small ones of more, there is a kernel for, how they are divided, and how long they
// take.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "arrange.cuh"
#include "few.h"
#include "few_kernel.cuh"
#include "launch.cuh"

namespace ksmm::few {
namespace {

constexpr int most_shared_bytes = 48 * 1024;
constexpr int64_t most_batch = 1024;  // rows

int rows_of(const Problem& problem) {
  return problem.batch >= 8 ? 8 : problem.batch > 2 ? 4 : static_cast<int>(problem.batch);
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
  return problem.batch > 0 && problem.batch <= most_batch && shared_bytes(problem, 0) <= most_shared_bytes;
}

// So many lanes share a dot product that each has at least one vector of it. A short one in float32 is one lane's,
// which adds up as strict does: of so few products the sums of each lane are as inexact as those of one.
int lanes_of(const Problem& problem) {
  const int64_t vectors = padded_c(problem) * size_of(problem.dtype) / 16;
  return vectors >= 32 ? 32 : vectors >= 16 ? 16 : vectors >= 8 || problem.dtype != Dtype::float32 ? 8 : 1;
}

// r of a block: two pairs of them for each group of lanes, or one where there are too few to occupy all
// multiprocessors.
int block_rows(const Problem& problem, const Machine& machine) {
  const int groups = threads / lanes_of(problem);
  const int64_t pairs = problem.a * problem.d * parts_of(problem.b, rows_at_a_time);
  const int of_group = pairs >= 4 * groups * static_cast<int64_t>(machine.multiprocessors) ? 2 : 1;
  return rows_at_a_time * std::max(1, of_group * groups >> shift_of(problem));
}

// How many neighbours of a contiguous X can be read together: those of a plane where there is one, else the same k of
// several.
int neighbours(const Problem& problem, int shift) {
  const int most = 16 / static_cast<int>(size_of(problem.dtype));
  if (problem.layout == Layout::batch_last) return 1;
  if (problem.d == 1) return problem.c % most == 0 ? most : 1;
  int vector = std::min(most, 1 << shift);
  while (problem.d % vector != 0) vector /= 2;
  return vector;
}

// ... and of this X.
int vector_of(const Problem& problem, const Operands& operands, int shift) {
  const auto whole = [&](int vector) {
    return operands.x_stride % vector == 0 &&
           reinterpret_cast<uintptr_t>(operands.x) % (vector * size_of(problem.dtype)) == 0;
  };
  int vector = neighbours(problem, shift);
  while (vector > 1 && !whole(vector)) vector = problem.d == 1 ? 1 : vector / 2;
  return vector;
}

// Fitted to 1,079 products of 20 patterns on an H200, 1 to 1,000 rows in both layouts and all dtypes, replayed from
// CUDA graphs: half of them within 6 %, nine of ten within 18 %. What one block waits for, what all blocks of a
// multiprocessor compute, and W from device memory.
double seconds(const Problem& problem, const Machine& machine) {
  const int shift = shift_of(problem), rows = block_rows(problem, machine), lanes = lanes_of(problem);
  const double n = rows_of(problem), passes = static_cast<double>(parts_of(problem.batch, rows_of(problem)));
  const double blocks = passes * static_cast<double>(problem.a * parts_of(problem.d, int64_t{1} << shift)) *
                        static_cast<double>(parts_of(problem.b, rows));
  const double share = std::max(1.0, blocks / machine.multiprocessors);
  const double gathered = n * static_cast<double>(padded_c(problem) << shift);
  const double loads = gathered / neighbours(problem, shift);
  const int pairs = (rows + rows_at_a_time - 1) / rows_at_a_time;
  const double turns = static_cast<double>(parts_of(pairs << shift, threads / lanes));
  const double numbers = turns * static_cast<double>(parts_of(padded_c(problem), lanes));  // of W, for a lane
  const double weights = static_cast<double>(problem.a * problem.b) * problem.c * problem.d * size_of(problem.dtype);
  const double waits = 0.35e-9 * loads + 1.5e-9 * n * numbers + 0.54e-6 * turns + (lanes == 1 ? 36e-9 * numbers : 0);
  const double computes = 0.17e-6 + 0.154e-9 * loads + 0.092e-9 * gathered + 3.4e-9 * n * numbers + 34e-9 * n * turns;
  // Up to four rows in 16 bits take 0.5 to 0.7 µs less than so predicted, and up to two columns another 0.3.
  const double of_columns = problem.layout == Layout::batch_last ? 0.3e-6 : 0;
  const double fewer_rows = problem.batch > 4 ? 0 : problem.batch > 2 ? 0.5e-6 : 0.7e-6 + of_columns;
  const double least = problem.dtype == Dtype::float32 ? 1.75e-6 : 1.95e-6 - fewer_rows;
  return least + waits + share * computes + weights / (0.91 * machine.memory_rate);
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
  if (machine.overlaps)
    return hopper::launch_overlapping(few_kernel<T, N, LANES>, blocks, threads, shared, 1, stream, task);
  return launch_blocks(few_kernel<T, N, LANES>, blocks, threads, shared, stream, task);
}

template <class T, int N>
cudaError_t launch_rows(const Problem& problem, const Operands& operands, const Machine& machine, cudaStream_t stream) {
  switch (lanes_of(problem)) {
    case 32: return launch_lanes<T, N, 32>(problem, operands, machine, stream);
    case 16: return launch_lanes<T, N, 16>(problem, operands, machine, stream);
    case 8: return launch_lanes<T, N, 8>(problem, operands, machine, stream);
    default: break;
  }
  if constexpr (std::is_same_v<T, float>) return launch_lanes<T, N, 1>(problem, operands, machine, stream);
  return cudaErrorInvalidValue;
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
}  // namespace ksmm::few

namespace ksmm {

Configurations few_configurations() { return {few::family, 1}; }

}  // namespace ksmm
