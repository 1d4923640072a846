// A tile of the TF32 family that multiplies halves, as a configuration. Host code.
#pragma once

#include "halves_weight.cuh"
#include "tf32_family.cuh"

namespace ksmm::hopper {

// What halves are not exact enough for is left to the same tile in parts: K and FRESH are those of the halves, PARTS_K
// and PARTS_FRESH its.
template <Access ACCESS, int PLANES, int BLOCKS, int ROWS, bool SPLIT, int K, int FRESH, int PARTS_K = K,
          int PARTS_FRESH = FRESH>
struct HalvesConfiguration {
  using Tile = Tf32Tile<ACCESS, PLANES, BLOCKS, ROWS, SPLIT, K, FRESH, Arithmetic::halves>;
  using InParts = Tf32Configuration<ACCESS, PLANES, BLOCKS, ROWS, SPLIT, PARTS_K, PARTS_FRESH>;
  using Times = typename InParts::Times;
  static constexpr char identity = 0;  // whose address says that a weight is prepared for this tile

  static bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
    const int64_t rows = problem.a * parts_of(problem.d, PLANES) * PLANES * parts_of(problem.b, ROWS) * ROWS;
    return problem.precision == Precision::compensated && problem.c >= 64 && rows <= INT32_MAX &&
           machine.shared_limit >= Tile::shared_bytes && InParts::takes(problem, operands, machine);
  }

  // What an H200 took: fitted to 25,088 rows of 122 products, 105 of them within a tenth, all but two within a fifth;
  // sectors, handed out in turn, to 38 others, 36 within a tenth.
  static constexpr Times measured() {
    if (ACCESS == Access::sectors) return ROWS == 64 ? Times{1.40e-6, 5.8e-6} : Times{1.26e-6, 4.6e-6};
    if (PLANES == 8) return ROWS == 64 ? Times{1.75e-6, 4.4e-6} : Times{3.1e-6, 3.5e-6};
    if (PLANES == 4) return {1.42e-6, 3.8e-6};
    if (PLANES == 3) return {2.45e-6, 3.9e-6};
    if (PLANES == 2) return ROWS == 96 ? Times{1.5e-6, 4.1e-6} : Times{1.12e-6, 2.2e-6};
    if (ACCESS == Access::runs) return ROWS == 96 ? Times{1.40e-6, 5.4e-6} : Times{1.00e-6, 4.1e-6};
    return ROWS == 128 ? Times{1.76e-6, 4.4e-6} : ROWS == 96 ? Times{1.31e-6, 4.5e-6} : Times{0.99e-6, 2.9e-6};
  }

  // How much longer a stage takes where each sector of many is read by one block only: memory rules then, more so the
  // fewer r are multiplied by what is read.
  static double read_once(const Problem& problem) {
    if (ACCESS != Access::sectors || problem.b > ROWS || problem.d <= 32) return 1;
    return ROWS == 64 ? 1.35 : 1.8;
  }

  // Tiles one after another on each multiprocessor, and two launches more, one of which prepares W: in graphs 20
  // products of 2,048 rows on an H200, whose weights were kept, took 5.4 us less than with 16, in the median.
  static double seconds(const Problem& problem, const Machine& machine) {
    const double share = 1.0 / machine.multiprocessors;
    const double slower = 21 * 1.98e9 / (machine.cache_rate * share);  // than an H200
    const double cut_off = problem.d % PLANES == 0 ? 1 : 1.3;          // sectors of Y
    const double factor = slower * cut_off * InParts::of_shifted;
    const double waves = std::ceil(InParts::tiles(problem) * share);
    const double stage = measured().stage * read_once(problem);
    const double work = waves * (parts_of(problem.c, K) * stage + measured().tile) * factor;
    return 12e-6 + std::max(work, InParts::bytes(problem) / machine.memory_rate);
  }

  // The launch that prepares W.
  static double saved_seconds(const Problem&, const Machine&) { return 6e-6; }

  static int64_t tiles_of_weight(const Problem& problem) {
    return problem.a * parts_of(problem.d, PLANES) * parts_of(problem.b, Tile::rows);
  }
  // Stages, scales, and whether a tile is left to parts.
  static KeptWeight kept(const Problem& problem) {
    const int64_t tiles = tiles_of_weight(problem);
    return {&identity,
            {tiles * parts_of(problem.c, Tile::k) * Tile::weight_bytes, tiles * PLANES * Tile::rows * 4,
             tiles * halves_blocks}};
  }

  static cudaError_t prepare(const Problem& problem, Operands* operands, const Workspace& workspace,
                             cudaStream_t stream) {
    return prepare_counting(problem, operands, nullptr, workspace, stream);
  }

  // Also sets *handed_out to zero, for tiles that are handed out in turn.
  static cudaError_t prepare_counting(const Problem& problem, Operands* operands, int* handed_out,
                                      const Workspace& workspace, cudaStream_t stream) {
    if (operands->prepared.owner == &identity) return cudaSuccess;
    HalvesTask task = {};
    task.weight = static_cast<const float*>(operands->weight);
    for (int n = 0; n < 4; ++n) task.strides[n] = operands->weight_strides[n];
    task.b = static_cast<int>(problem.b), task.c = static_cast<int>(problem.c), task.d = static_cast<int>(problem.d);
    task.row_tiles = static_cast<int>(parts_of(problem.b, Tile::rows));
    task.plane_tiles = static_cast<int>(parts_of(problem.d, PLANES));
    const KeptWeight all = kept(problem);
    const auto allocate = [&](int place) {
      return workspace.allocate(static_cast<size_t>(all.bytes[place]), workspace.context);
    };
    task.stages = static_cast<char*>(allocate(0));
    task.scales = static_cast<float*>(allocate(1));
    task.uneven = static_cast<uint8_t*>(allocate(2));
    task.handed_out = handed_out;
    operands->prepared = {&identity, {task.stages, task.scales, task.uneven}};
    return launch_overlapping(prepare_halves<Tile>, halves_blocks * tiles_of_weight(problem), halves_threads, 0, 1,
                              stream, task);
  }

  static cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine,
                            const Workspace& workspace, cudaStream_t stream) {
    Operands used = operands;
    int* const handed_out =
        Tile::in_turn ? static_cast<int*>(workspace.allocate(sizeof(int), workspace.context)) : nullptr;
    cudaError_t error = prepare_counting(problem, &used, handed_out, workspace, stream);
    const void* const* places = used.prepared.places;
    const auto tiles = static_cast<size_t>(InParts::tiles(problem));
    const HalvesOfWeight halves = {static_cast<const char*>(places[0]), static_cast<const float*>(places[1]),
                                   static_cast<const uint64_t*>(places[2]),
                                   static_cast<uint64_t*>(workspace.allocate(8 * tiles, workspace.context)),
                                   handed_out};
    if (error == cudaSuccess) error = launch_tile<Tile>(problem, used, machine, stream, halves);
    if (error != cudaSuccess) return error;
    return InParts::launch_parts(problem, used, machine, stream, halves);
  }

  // Tiles that are handed out in turn need their counter set to zero each time, which preparing W does: never before.
  static constexpr Configuration as(const char* name) {
    if (Tile::in_turn) return {name, true, takes, seconds, launch};
    return {name, true, takes, seconds, launch, prepare, kept, saved_seconds};
  }
};

}  // namespace ksmm::hopper
