// The chains that the fused kernel with a streamed X takes, and its launch.
#include <algorithm>
#include <cmath>

#include "chain_kernel.h"
#include "tensor_map.h"

#ifdef KSMM_SM90A
#include "fused_family.cuh"
#include "fused_streamed_kernel.cuh"
#endif

namespace ksmm::hopper {

#ifdef KSMM_SM90A

namespace {

constexpr int64_t most_kept_bytes = 32 << 20;  // of an X that three layers read one after another, say

// A tile of the kernel past which X streams, to the family.
template <class Tile>
struct Streamed {
  struct Boxes {
    TensorBox x, inner, outer, y;
    Boxes(const Problem& first, const Operands& of_inner, const Problem& second, const Operands& of_outer) {
      const int64_t row = of_inner.weight_strides[1], *planes = of_outer.weight_strides;
      x = {3, {first.c, first.a, first.batch}, {1, first.c, of_inner.x_stride}, {streamed_step, 1, Tile::n}};
      inner = {3, {first.c, second.c, Tile::j}, {1, Tile::j * row, row}, {streamed_step, Tile::span, Tile::j}};
      outer = {3, {second.c, second.b, Tile::j}, {1, planes[1], planes[3]}, {streamed_step, Tile::columns, Tile::j}};
      y = {2, {second.b * Tile::j, first.batch}, {1, second.b * Tile::j}, {8 * Tile::j, 8}};
    }
  };

  struct Slots {
    int64_t inner, outer;
  };
  static int64_t bytes_of_planes(const Problem& outer) {
    return Tile::j * parts_of(outer.c, streamed_step) * Tile::box_bytes;
  }
  static Slots slots_of(const Problem& outer, const Machine& machine) {
    const int64_t room = machine.shared_limit - streamed_barrier_bytes - bytes_of_planes(outer);
    return {std::min<int64_t>(room / Tile::inner_slot, streamed_most_slots),
            std::min<int64_t>((room - Tile::outlet_bytes) / Tile::outer_slot, streamed_most_slots)};
  }

  // Whoever's turn it is to multiply holds all stages of its columns, and one is on its way.
  static bool fits(const Problem& inner, const Problem& outer, const Machine& machine) {
    const Slots slots = slots_of(outer, machine);
    return outer.d == Tile::j && inner.b == Tile::b && outer.b % 8 == 0 && outer.c % streamed_step == 0 &&
           slots.inner >= 3 && slots.outer >= std::max<int64_t>(3, outer.c / streamed_step + 1);
  }

  static bool takes(const Problem& inner, const Operands& of_inner, const Problem& outer, const Operands& of_outer,
                    const Machine& machine) {
    const auto aligned = [](const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; };
    if (!fits(inner, outer, machine) || !aligned(of_outer.bias)) return false;
    if (inner.a > 1 && of_inner.weight_strides[0] != inner.b * of_inner.weight_strides[1]) return false;
    const Boxes boxes(inner, of_inner, outer, of_outer);
    return can_describe(of_inner.x, inner.dtype, boxes.x) && can_describe(of_inner.weight, inner.dtype, boxes.inner) &&
           can_describe(of_outer.weight, inner.dtype, boxes.outer) && can_describe(of_outer.y, inner.dtype, boxes.y);
  }

  // What a multiprocessor reads and writes of a tile, one after the other, and a start. Measured on an H200: faster
  // than its share of memory, since weights, and some of X, come from the L2 cache.
  static double seconds(const Problem& inner, const Problem& outer, const Machine& machine) {
    const auto bytes = [](int64_t numbers) { return 2.0 * static_cast<double>(numbers); };
    const double read = bytes(inner.a * inner.c * (Tile::n + Tile::b) + outer.b * outer.c * outer.d);
    const double written = bytes(outer.b * outer.d * Tile::n);
    const int64_t tiles = parts_of(inner.batch, Tile::n), rounds = parts_of(tiles, machine.multiprocessors);
    const double share = 1.15 * machine.memory_rate / machine.multiprocessors;
    return 3e-6 + static_cast<double>(rounds) * (1.5e-6 + (read + written) / share);
  }

  template <class T>
  static cudaError_t launch(const Problem& inner, const Operands& of_inner, const Problem& outer,
                            const Operands& of_outer, const Machine& machine, cudaStream_t stream) {
    const Boxes boxes(inner, of_inner, outer, of_outer);
    FusedStreamedTask task;
    const auto describe_box = [&](CUtensorMap* map, const void* data, const TensorBox& box) {
      return describe_tensor(map, data, inner.dtype, box, streamed_row);
    };
    cudaError_t error = describe_box(&task.x, of_inner.x, boxes.x);
    if (error == cudaSuccess) error = describe_box(&task.inner, of_inner.weight, boxes.inner);
    if (error == cudaSuccess) error = describe_box(&task.outer, of_outer.weight, boxes.outer);
    if (error == cudaSuccess) error = describe_tensor(&task.y, of_outer.y, inner.dtype, boxes.y, Tile::outlet_swizzle);
    if (error != cudaSuccess) return error;
    task.bias = static_cast<const uint16_t*>(of_outer.bias);
    task.x_keep = 2 * inner.a * inner.c * inner.batch <= most_kept_bytes ? Keep::normal : Keep::first_out;
    task.b = static_cast<int>(outer.b), task.blocks = static_cast<int>(inner.a);
    task.inner_boxes = static_cast<int>(parts_of(inner.c, streamed_step));
    task.outer_boxes = static_cast<int>(parts_of(outer.c, streamed_step));
    const Slots slots = slots_of(outer, machine);
    task.inner_slots = static_cast<int>(slots.inner), task.outer_slots = static_cast<int>(slots.outer);
    task.tiles = parts_of(inner.batch, Tile::n);
    const int64_t blocks = std::min<int64_t>(task.tiles, machine.multiprocessors);
    const int64_t shared = bytes_of_planes(outer) + streamed_place_bytes<Tile>(task.inner_slots, task.outer_slots) +
                           streamed_barrier_bytes;
    return launch_overlapping(fused_streamed_kernel<T, Tile>, blocks, Tile::threads, shared, 1, stream, task);
  }
};

using Family = FusedFamily<Streamed<FusedStreamedTile<6, 64, 3, 32, 2>>, Streamed<FusedStreamedTile<12, 32, 3, 16, 2>>,
                           Streamed<FusedStreamedTile<8, 64, 2, 32, 2>>>;

}  // namespace

const ChainKernel fused_streamed = {Family::seconds, Family::multiply};

#else

const ChainKernel fused_streamed = no_chain_kernel;

#endif

}  // namespace ksmm::hopper
