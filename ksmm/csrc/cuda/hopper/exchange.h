// The products of many planes whose Y is [n][i][r][j], in whole sectors, for 16-bit types: in one pass, or the second
// of two.
#pragma once

#include "gemm.h"

namespace ksmm::hopper {

// Where X comes from: [n][i][j][k], as a transposition leaves it, or [n][i][k][j], as it is in batch_first.
enum class ExchangeSource { planes, interleaved };

// r of a tile, and j of a cluster: 16, or 24 of planes with 64 r.
struct ExchangeShape {
  ExchangeSource source;
  int columns, group;
};

// The view is that of gemm with d as groups_j, k or j contiguous in X by the source, and Y contiguous
// (y_strides is not used).
bool exchange_takes(const GemmView& view, ExchangeShape shape, const Machine& machine);
double exchange_seconds(const GemmView& view, ExchangeShape shape, const Machine& machine);
cudaError_t launch_exchange(const GemmView& view, ExchangeShape shape, const Machine& machine, cudaStream_t stream);

}  // namespace ksmm::hopper
