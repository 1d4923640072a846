// The sums of a block of the strict float32 kernel: whose they are, and their way to device memory. Runs on host and
// device.
//
// batch_first with several j: back through shared memory, so that sectors of Y are written whole.
#pragma once

#include "strict_tile.cuh"
#include "task.cuh"
#include "tile_map.cuh"

namespace ksmm {

template <Layout LAYOUT, class Tile>
struct StrictSums {
  static constexpr bool first = LAYOUT == Layout::batch_first;

  struct Registers {
    float sums[Tile::thread_n][Tile::thread_r];
    float bias[Tile::thread_r];
  };

  // Which of the threads along n and r a thread is, and its j.
  struct Seat {
    int n, r, j;
  };
  KSMM_BOTH static Seat seat_of(int thread) {
    const int warp = thread / 32 / Tile::j, lane = thread % 32;
    return {warp % Tile::warps_n * Tile::lanes_n + lane % Tile::lanes_n,
            warp / Tile::warps_n * Tile::lanes_r + lane / Tile::lanes_n, thread / 32 % Tile::j};
  }

  KSMM_BOTH static uint32_t* y_of(const Task<float>& task, const Origin& origin) {
    const Strides& strides = task.y_strides;
    return task.y + origin.i * strides.i + origin.n * strides.row + origin.r * strides.column + origin.j * strides.j;
  }
  KSMM_BOTH static Place y_limits(const Task<float>& task, const Origin& origin) {
    return {left(task.batch, origin.n, Tile::n), left(task.b, origin.r, Tile::r), left(task.d, origin.j, Tile::j)};
  }

  // Step 3: what is added to the sums on their way out, -0 where there is no bias: that changes no sum. It is added all
  // the same, for what is stored as it is has to lie side by side in registers, and then two or three of a product's
  // operands come through the same port.
  KSMM_BOTH static void read_bias(Registers& registers, const Task<float>& task, const Origin& origin, int thread) {
    const Seat seat = seat_of(thread);
#pragma unroll
    for (int r = 0; r < Tile::thread_r; ++r)
      registers.bias[r] =
          task.bias == nullptr
              ? -0.f
              : bias_at(task, origin.i, origin.r + (r / 4 * Tile::threads_r + seat.r) * 4 + r % 4, origin.j + seat.j);
  }
  KSMM_BOTH static float out(const Registers& registers, int n, int r) {
    return registers.sums[n][r] + registers.bias[r];
  }

  // Step 4, where J is 1: the sums, to device memory. Vectors lie along n in batch_last, along r in batch_first.
  KSMM_BOTH static void store(const Registers& registers, const Task<float>& task, const Origin& origin, int thread) {
    const Seat seat = seat_of(thread);
    const Strides& strides = task.y_strides;
    uint32_t* y = y_of(task, origin);
    const Place limits = y_limits(task, origin);
    if (task.y_vectors && limits.row == Tile::n && limits.column == Tile::r) {  // no edge: fewer instructions
      y += offset({seat.n * 4, seat.r * 4, 0}, strides);
      each_vector(registers, [&](const Vector<float, 4>& vector, int n, int r) {
        store_global<float, 4>(y + n * strides.row + r * strides.column, vector);
      });
      return;
    }
    each_vector(registers, [&](const Vector<float, 4>& vector, int n, int r) {
      store_places(y, strides, limits, task.y_vectors, vector, [&](int element) -> Place {
        return {seat.n * 4 + n + (first ? 0 : element), seat.r * 4 + r + (first ? element : 0), 0};
      });
    });
  }

  // Calls with each vector of four that a thread stores, and where it begins, counted from the first of them.
  template <class Function>
  KSMM_BOTH static void each_vector(const Registers& registers, Function function) {
#pragma unroll
    for (int n = 0; n < Tile::thread_n; n += first ? 1 : 4)
#pragma unroll
      for (int r = 0; r < Tile::thread_r; r += first ? 4 : 1) {
        Vector<float, 4> vector;
#pragma unroll
        for (int element = 0; element < 4; ++element)
          vector.bits[element] = to_bits<float>(out(registers, n + (first ? 0 : element), r + (first ? element : 0)));
        function(vector, n / 4 * Tile::threads_n * 4 + n % 4, r / 4 * Tile::threads_r * 4 + r % 4);
      }
  }

  // Step 4, where J is more: a round of the sums, to shared memory, in the order of the threads' first, second, ... n.
  KSMM_BOTH static void put(const Registers& registers, float* shared, int round, int thread) {
    const Seat seat = seat_of(thread);
    float* target = shared + seat.j * Tile::sum_plane + seat.n * Tile::sum_pitch + seat.r * 4;
#pragma unroll
    for (int own_round = 0; own_round < Tile::rounds; ++own_round)  // registers are not indexed by a variable
      if (own_round == round)
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
          for (int r = 0; r < Tile::thread_r; r += 4) {
            const int row = own_round * 4 + n;
            *reinterpret_cast<float4*>(target + n * Tile::threads_n * Tile::sum_pitch + r * Tile::threads_r) = {
                out(registers, row, r), out(registers, row, r + 1), out(registers, row, r + 2),
                out(registers, row, r + 3)};
          }
  }

  // Step 5: that round, to device memory, in vectors along (r, j).
  KSMM_BOTH static void take(const float* shared, const Task<float>& task, const Origin& origin, int round,
                             int thread) {
    constexpr int V = Tile::y_vector, vectors = Tile::r * Tile::j / V, all = vectors * Tile::round_n;
    static_assert(all % Tile::threads == 0, "threads must share out the sums evenly");
    uint32_t* y = y_of(task, origin) + round * Tile::round_n * task.y_strides.row;
    Place limits = y_limits(task, origin);
    limits.row -= round * Tile::round_n;
#pragma unroll 2  // more would spill registers
    for (int slot = 0; slot < all / Tile::threads; ++slot) {
      const int index = slot * Tile::threads + thread;
      // the feature of a thread does not change with the slot where rows share out the threads evenly
      const bool even = Tile::threads % vectors == 0;
      const int row = even ? slot * (Tile::threads / vectors) + thread / vectors : index / vectors;
      const int n = row % Tile::threads_n * 4 + row / Tile::threads_n;
      const int feature = (even ? thread : index) % vectors * V;
      Vector<float, V> vector;
#pragma unroll
      for (int element = 0; element < V; ++element) {
        const int own = feature + element;
        vector.bits[element] =
            to_bits<float>(shared[own % Tile::j * Tile::sum_plane + row * Tile::sum_pitch + own / Tile::j]);
      }
      store_places(y, task.y_strides, limits, task.y_vectors, vector, [&](int element) -> Place {
        const int own = feature + element;
        return {n, own / Tile::j, own % Tile::j};
      });
    }
  }
};

}  // namespace ksmm
