// A way to multiply, with the tile sizes fixed: what the cost model and the tuner choose among. Host code.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "../ks_matmul.h"

namespace ksmm {

// How many parts of a size cover it.
constexpr int64_t parts_of(int64_t size, int64_t part) { return (size + part - 1) / part; }

// The current device, as the cost model sees it.
struct Machine {
  int capability;  // 90 for 9.0
  int multiprocessors;
  int pairs;           // clusters of two blocks that run at a time where a block fills a multiprocessor
  int quads;           // clusters of four
  int octets;          // clusters of eight
  int shared_limit;    // bytes of shared memory that a block may have
  double memory_rate;  // bytes per second of device memory, read and written
  double cache_rate;   // bytes per second from the L2 cache to the multiprocessors
  double matrix_rate;  // 16-bit operations per second of the matrix units; TF32 has half
  double float_rate;   // float32 operations per second outside of them
  bool overlaps;       // whether kernels wait for those before them, and so may begin early (hopper/overlap.cuh)
  bool is_part;        // whether these are multiprocessors of a device on whose others something else runs
};

// Asks once for each device; the rates are estimates.
cudaError_t current_machine(Machine* machine);

struct Configuration {
  const char* name;  // "family tile", unique: tuning files remember it
  // Whether W must be stored as (a, d, b, c) with c contiguous, its other strides multiples of 16 bytes and its address
  // too; the caller sees to it, and `takes` and `launch` get operands that are so.
  bool arranged_weight;
  bool (*takes)(const Problem& problem, const Operands& operands, const Machine& machine);
  double (*seconds)(const Problem& problem, const Machine& machine);  // the cost model's prediction
  cudaError_t (*launch)(const Problem& problem, const Operands& operands, const Machine& machine,
                        const Workspace& workspace, cudaStream_t stream);
  // Does to the weight what each launch would do, once for several with the same problem but for its batch; may be
  // null.
  cudaError_t (*prepare)(const Problem& problem, Operands* operands, const Workspace& workspace,
                         cudaStream_t stream) = nullptr;
  // What of prepare() may also be kept from call to call; may be null.
  KeptWeight (*kept)(const Problem& problem) = nullptr;
  // Of seconds(), what a product with a kept weight does not take; as kept.
  double (*saved_seconds)(const Problem& problem, const Machine& machine) = nullptr;
};

// What the cost model predicts of the fastest for contiguous operands at multiples of 16 bytes and an arranged weight.
double least_seconds(const Problem& problem, const Machine& machine);

// A family: an array that lives as long as the program.
struct Configurations {
  const Configuration* data;
  int count;
};

}  // namespace ksmm
