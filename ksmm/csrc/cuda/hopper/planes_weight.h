// W in the order in which the stages of a tile of the planes kernel hold it, made for each product, or once for a
// weight that is kept: a stage then comes as one run of bytes, for which the copy engine needs a fraction of the time
// that rows of 32 or 64 bytes take. Host code.
#pragma once

#include "../configuration.h"

namespace ksmm::hopper {

// A tile: j planes by r rows of k numbers, of which `tiles_r` cover b; those beyond b, c and d are zeros.
struct PlanesStages {
  int j, r, k;
  int64_t tiles_r;

  int64_t stage_bytes() const { return int64_t{2} * j * r * k; }
  int64_t tiles_j(const Problem& problem) const { return parts_of(problem.d, j); }
  int64_t steps(const Problem& problem) const { return parts_of(problem.c, k); }
  int64_t bytes(const Problem& problem) const {
    return problem.a * tiles_j(problem) * tiles_r * steps(problem) * stage_bytes();
  }
};

// Writes them to `stages`: [i][tile of j][tile of r][step of k] of a stage each. W may have any strides.
cudaError_t write_planes_stages(const Problem& problem, const Operands& operands, const PlanesStages& shape,
                                void* stages, cudaStream_t stream);

}  // namespace ksmm::hopper
