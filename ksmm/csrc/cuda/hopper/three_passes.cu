// 16-bit types in batch_first with d > 1 in three passes.
#include "../transpose.cuh"
#include "gemm.h"
#include "three_passes.h"

namespace ksmm::hopper {

#ifdef KSMM_SM90A

namespace {

// What goes from pass to pass: X' as [n][i][j][k] and Y' as [n][i][j][r].
struct Passes {
  Transposition x, y;
  GemmView product;
};

Passes describe_passes(const Problem& problem, const Operands& operands, void* x, void* y) {
  const auto [a, b, c, d, batch, dtype, layout, precision] = problem;
  const int64_t* strides = operands.weight_strides;
  Passes passes;
  passes.x = {static_cast<const uint16_t*>(operands.x), static_cast<uint16_t*>(x), batch * a, c, d};
  passes.y = {static_cast<const uint16_t*>(y), static_cast<uint16_t*>(operands.y), batch * a, d, b};
  passes.product = {dtype,
                    false,
                    a,
                    d,
                    batch,
                    b,
                    c,
                    x,
                    {d * c, c, a * d * c, 1},
                    operands.weight,
                    {strides[0], strides[1], strides[2], strides[3]},
                    operands.bias,
                    y,
                    {d * b, b, a * d * b, 1}};
  return passes;
}

bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
  if (problem.dtype == Dtype::float32 || problem.layout != Layout::batch_first || problem.d == 1) return false;
  if (operands.x_stride != problem.a * problem.c * problem.d) return false;
  const Passes passes = describe_passes(problem, operands, nullptr, nullptr);  // the workspace is aligned
  GemmTile tile;
  return can_transpose(passes.x) && can_transpose(passes.y) && choose_gemm_tile(passes.product, machine, &tile);
}

// The transpositions run at about 0.82 of the rate of a copy.
double seconds(const Problem& problem, const Machine& machine) {
  Operands arranged = {};
  const int64_t row = (problem.c + 7) / 8 * 8, plane = problem.b * row;
  arranged.weight_strides[0] = problem.d * plane, arranged.weight_strides[1] = row;
  arranged.weight_strides[2] = 1, arranged.weight_strides[3] = plane;
  const Passes passes = describe_passes(problem, arranged, nullptr, nullptr);
  GemmTile tile;
  if (!choose_gemm_tile(passes.product, machine, &tile)) return 1e9;
  const double features = static_cast<double>(problem.a) * problem.d * (problem.b + problem.c);
  const double transpositions = 4 * features * problem.batch / (0.82 * machine.memory_rate);
  return 5e-6 + transpositions + gemm_seconds(passes.product, tile, machine);
}

cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace& workspace,
                   cudaStream_t stream) {
  const auto allocate = [&](int64_t width) {
    const int64_t elements = problem.batch * problem.a * problem.d * width;
    return workspace.allocate(static_cast<size_t>(elements) * 2, workspace.context);
  };
  void* x = allocate(problem.c);
  const Passes passes = describe_passes(problem, operands, x, allocate(problem.b));
  GemmTile tile;
  if (!choose_gemm_tile(passes.product, machine, &tile)) return cudaErrorInvalidValue;
  cudaError_t error = transpose(passes.x, stream);
  if (error == cudaSuccess) error = launch_gemm(passes.product, tile, machine, stream);
  return error == cudaSuccess ? transpose(passes.y, stream) : error;
}

constexpr Configuration family[] = {{"three passes", true, takes, seconds, launch}};

}  // namespace

Configurations three_pass_configurations() { return {family, 1}; }

#else

Configurations three_pass_configurations() { return {nullptr, 0}; }

#endif

}  // namespace ksmm::hopper
