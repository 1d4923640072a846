// The multiplication by one Kronecker-sparse factor, as the CPU and the CUDA sources see it: no PyTorch.
//
//   Y[n, i, r, j] = bias[i, r, j] + sum over k of X[n, i, k, j] * W[i, r, k, j]   (Algorithm 2 of the paper, as one
//   sum)
//
// with 0 <= n < batch, i < a, r < b, k < c, j < d. Sums are accumulated in float32 whatever the dtype.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ksmm {

enum class Dtype : int { float32 = 0, float16 = 1, bfloat16 = 2 };
// Bytes of an element.
constexpr int size_of(Dtype dtype) { return dtype == Dtype::float32 ? 4 : 2; }

// X and Y are indexed [n][i][r or k][j] in batch_first and [i][r or k][j][n] in batch_last.
enum class Layout : int { batch_first = 0, batch_last = 1 };

// How float32 is multiplied; 16-bit products are exact in any case. strict: by float32 multiply-adds. compensated: on
// matrix units where there are some (on CUDA by TF32 or 16-bit numbers, on CPUs with AMX by bfloat16), each number as a
// sum of two or three, as exactly as strict (docs/float32.md, by how much not; below 2^-100 bfloat16 ends). tf32: on
// CUDA's, rounded to 10 bits of fraction.
enum class Precision : int { strict = 0, compensated = 1, tf32 = 2 };

struct Problem {
  int64_t a, b, c, d;
  int64_t batch;
  Dtype dtype;  // of X, W, bias and Y
  Layout layout;
  Precision precision = Precision::strict;
};

// What a configuration made of the weight, for launches to come: whose it is, and where.
struct PreparedWeight {
  const void* owner = nullptr;
  const void* places[3] = {};
};

struct Operands {
  // a*c*d features by batch; the inner dimension (features in batch_first, batch in batch_last) is contiguous, and
  // x_stride elements separate two indices of the outer one. Any element-aligned address.
  const void* x;
  int64_t x_stride;
  // Any strides, in elements, of the dimensions a, b, c, d.
  const void* weight;
  int64_t weight_strides[4];
  // a*b*d elements, contiguous, or null.
  const void* bias;
  // a*b*d features by batch, contiguous; every element is written.
  void* y;
  PreparedWeight prepared = {};  // of CUDA configurations
  // Of products between passes, in batch_first with d = 1, whose blocks i are the planes of `bias_planes` each of
  // another product: as that one has it, the bias of block i and row r is at (i / bias_planes b + r) bias_planes + i %
  // bias_planes. Otherwise 1.
  int64_t bias_planes = 1;
};

// Runs on the calling thread and on `parallel_for`'s.
//
// parallel_for.run(count, body, context) calls body(begin, end, context) on disjoint ranges that cover [0, count), on
// so many threads at most.
using Body = void (*)(int64_t begin, int64_t end, void* context);
struct ParallelFor {
  int64_t threads;
  void (*run)(int64_t count, Body body, void* context);
};
void multiply_cpu(const Problem& problem, const Operands& operands, ParallelFor parallel_for);
// Whether this CPU has products of tiles (AMX), by which float32 is multiplied unless it is to be strict.
bool multiplies_by_tiles();

// Device memory for the time of one call: a function that returns at least `bytes` bytes, aligned to 256, usable on the
// call's stream until the call's work is done.
struct Workspace {
  void* (*allocate)(size_t bytes, void* context);
  void* context;
};

// The ways that are compiled in to multiply on CUDA devices, numbered from 0.
int configuration_count();
const char* configuration_name(int configuration);
// Whether a configuration multiplies this problem with these operands on the current device; never says no to at least
// one of them.
bool configuration_takes(int configuration, const Problem& problem, const Operands& operands);
// The one that the cost model picks, for weights that are kept as prepare_weight_cuda makes them or for others. Returns
// the cudaError_t of asking the device, 0 on success.
int choose_configuration(const Problem& problem, const Operands& operands, bool keeps_weight, int* chosen);

// Enqueues on `stream` (a cudaStream_t) of the current device and returns without waiting. A configuration of -1, or
// one that does not take the problem, leaves the choice to the cost model. Returns the cudaError_t of the launch, 0 on
// success.
int multiply_cuda(const Problem& problem, const Operands& operands, int configuration, const Workspace& workspace,
                  void* stream);

// What a configuration makes of the weight before it multiplies, to be kept for products that differ in their batch
// alone. Takes `configuration` as multiply_cuda does, and sets *chosen to the one that will be used. Enqueues the work,
// and sets operands->prepared to where it is; its owner stays null where there is nothing to keep.
int prepare_weight_cuda(const Problem& problem, Operands* operands, int configuration, int* chosen,
                        const Workspace& workspace, void* stream);
// What that is: the owner of the places in Operands::prepared, null where there is nothing to keep, and the bytes of
// each.
struct KeptWeight {
  const void* owner = nullptr;
  int64_t bytes[3] = {};
};
KeptWeight kept_weight(int configuration, const Problem& problem);

// As multiply_cuda, for two factors in batch_first whose features in between never leave the chip: Y is `outer` times
// `inner` times X; x of `outer` and y of `inner` are not used. Returns false, having done nothing, where no kernel
// takes the chain; *error is the launch's otherwise.
bool multiply_chain_cuda(const Problem& inner, const Operands& of_inner, const Problem& outer, const Operands& of_outer,
                         void* stream, int* error);
// Whether the cost model finds that faster than two launches on the current device; false where no kernel takes it.
bool chain_pays(const Problem& inner, const Problem& outer);

// destination[m][q][p] = source[m][p][q] of elements of so many bytes, for so many matrices of so many rows p and
// columns q, at the speed of a copy. Returns false, having done nothing, where that is not possible; *error is the
// launch's otherwise.
bool transpose_cuda(int element_bytes, const void* source, void* destination, int64_t matrices, int64_t rows,
                    int64_t columns, void* stream, int* error);

// ∂W[i, j][r, k] = Σ_n ∂Y[i, r, j, n] X[i, k, j, n], of operands in either layout; strides from one row to the next.
struct WeightGradient {
  Dtype dtype;
  int64_t a, b, c, d, batch;
  const void* x;
  int64_t x_stride;
  const void* y;
  int64_t y_stride;
};
// In batch_last: in how many parts of the batch it is computed on the current device, which are to be summed; 0 where
// no kernel takes it.
int64_t weight_gradient_parts(const WeightGradient& of);
// Enqueues it: products of shape (parts, a, d, b, c). Returns the cudaError_t of the launches.
int weight_gradient_cuda(const WeightGradient& of, int64_t parts, void* products, void* stream);

// In batch_first, by one pass over X and ∂Y: in how many parts of the batch. `wanted`, at most as many as there are
// steps, or, if that is -1, as many as the cost model picks; 0 where no kernel takes it, or copies of the planes of
// both and products of these are expected to be faster.
int64_t weight_gradient_first_parts(const WeightGradient& of, int64_t wanted);
// Enqueues it, the sum of the parts too: `gradient` is contiguous, of shape (a, b, c, d), at a multiple of 16 bytes.
// Returns the cudaError_t of the launches.
int weight_gradient_first_cuda(const WeightGradient& of, int64_t parts, void* gradient, const Workspace& workspace,
                               void* stream);

}  // namespace ksmm
