// Runs the CUDA kernels' own steps on the CPU, block by block and thread by thread, and compares with a plain sum in
// double.
//
// Needs nvcc but no GPU. Built with AddressSanitizer (test_emulation.py does) it also proves that nothing outside the
// operands is read or written: each lives in an allocation of exactly its size.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <random>
#include <vector>

#include "../../ksmm/csrc/cuda/simt_family.cuh"
#include "../../ksmm/csrc/cuda/simt_kernel.cuh"
#include "../../ksmm/csrc/cuda/strict.cuh"
#include "../../ksmm/csrc/cuda/tensor_family.cuh"
#include "emulate_strict.cuh"

using namespace ksmm;

template <class T, Layout LAYOUT, class Tile>
void emulate_simt(const Task<T>& task) {
  using Steps = SimtSteps<T, LAYOUT, Tile>;
  struct alignas(16) Shared {
    float x[Tile::k * Tile::x_pitch], weight[Tile::k * Tile::weight_pitch];
  };
  auto shared = std::make_unique<Shared>();
  std::vector<typename Steps::Registers> registers(Tile::threads);
  const auto each_thread = [&](auto step) {
    for (int thread = 0; thread < Tile::threads; ++thread) step(registers[thread], thread);
  };
  using R = typename Steps::Registers;
  for (int64_t tile = 0; tile < task.tiles; ++tile) {
    const Origin origin = tile_origin(task, tile, Tile::n, Tile::r, Tile::j);
    each_thread([](R& r, int) { r = {}; });
    each_thread([&](R& r, int thread) { Steps::load(r, task, origin, 0, thread); });
    for (int64_t k = 0; k < task.c; k += Tile::k) {
      for (float& value : shared->x) value = NAN;
      for (float& value : shared->weight) value = NAN;
      each_thread([&](R& r, int thread) { Steps::stage(r, task, shared->x, shared->weight, thread); });
      if (k + Tile::k < task.c)
        each_thread([&](R& r, int thread) { Steps::load(r, task, origin, k + Tile::k, thread); });
      each_thread([&](R& r, int thread) { Steps::multiply(r, shared->x, shared->weight, thread); });
    }
    each_thread([&](R& r, int thread) { Steps::add_bias(r, task, origin, thread); });
    each_thread([&](R& r, int thread) { Steps::store(r, task, origin, thread); });
  }
}

// What load_matrices gives a lane, by the instruction's definition; address(lane) is the address that a lane gives it.
template <class Address>
void matrices_of_lane(uint32_t (&words)[4], int lane, bool transposed, Address address) {
  for (int matrix = 0; matrix < 4; ++matrix) {
    const auto at = [&](int row, int column) -> uint32_t { return address(matrix * 8 + row)[column]; };
    const int row = lane / 4, pair = lane % 4 * 2;
    const uint32_t low = transposed ? at(pair, row) : at(row, pair);
    const uint32_t high = transposed ? at(pair + 1, row) : at(row, pair + 1);
    words[matrix] = low | high << 16;
  }
}

// C += A B for a whole warp, from the parts that its lanes hold (see matrix_unit.cuh).
template <class T>
void multiply_warp(float (*c)[4], const uint32_t (*a)[4], const uint32_t (*b)[2]) {
  const auto half = [](uint32_t word, int index) {
    return to_float<T>(static_cast<uint16_t>(word >> 16 * (index % 2)));
  };
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      float& sum = c[row % 8 * 4 + column / 2][row / 8 * 2 + column % 2];
      for (int k = 0; k < 16; ++k)
        sum += half(a[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k) * half(b[column * 4 + k % 8 / 2][k / 8], k);
    }
}

// TensorProducts::multiply_group, with the instructions of a warp carried out for its 32 lanes together.
template <class T, Layout LAYOUT, class Tile>
void emulate_group(typename TensorProducts<T, LAYOUT, Tile>::Registers* lanes, const Bits<T>* shared, int warp, int j,
                   int k) {
  using Products = TensorProducts<T, LAYOUT, Tile>;
  constexpr bool first = LAYOUT == Layout::batch_first;
  const auto seat = Products::seat_of(warp * 32);
  for (int m = 0; m < Products::matrices_m; ++m) {
    uint32_t a[32][Products::group][4];
    for (int lane = 0; lane < 32; ++lane) {
      const auto as_a = [&](int l) {
        return shared + (first ? Products::x_as_a(seat, m, k, l) : Products::weight_as_a(seat, m, k, l));
      };
      if constexpr (Products::planes == 1)
        matrices_of_lane(a[lane][0], lane, false, as_a);
      else
        Products::pair_x(a[lane], shared, seat, j, m, k, lane);
    }
    for (int plane = 0; plane < Products::group; ++plane)
      for (int n = 0; n < Products::matrices_n; ++n) {
        uint32_t plane_a[32][4], b[32][2];
        float c[32][4];
        for (int lane = 0; lane < 32; ++lane) {
          uint32_t pair_b[4];
          matrices_of_lane(pair_b, lane, !first, [&](int l) {
            return shared + (first ? Products::weight_as_b(seat, j + plane, n / 2 * 2, k, l)
                                   : Products::x_as_b(seat, n / 2 * 2, k, l));
          });
          for (int word = 0; word < 4; ++word) plane_a[lane][word] = a[lane][plane][word];
          for (int word = 0; word < 2; ++word) b[lane][word] = pair_b[n % 2 * 2 + word];
          for (int value = 0; value < 4; ++value) c[lane][value] = lanes[lane].sums[j + plane][m][n][value];
        }
        multiply_warp<T>(c, plane_a, b);
        for (int lane = 0; lane < 32; ++lane)
          for (int value = 0; value < 4; ++value) lanes[lane].sums[j + plane][m][n][value] = c[lane][value];
      }
  }
}

template <class T, Layout LAYOUT, class Tile>
void emulate_tensor(const TensorTask<T>& task) {
  using Copy = TensorCopy<T, LAYOUT, Tile>;
  using Products = TensorProducts<T, LAYOUT, Tile>;
  using Store = TensorStore<T, LAYOUT, Tile>;
  using R = typename Products::Registers;
  using Shared = TensorShared<LAYOUT, Tile>;
  struct alignas(16) Step {
    Bits<T> data[Shared::step_size];
  };
  auto step = std::make_unique<Step>();
  std::vector<R> registers(Tile::threads);
  for (int64_t tile = 0; tile < task.tiles; ++tile) {
    const Origin origin = tile_origin(task, tile, Tile::n, Tile::r, Tile::j);
    for (R& r : registers) r = {};
    for (int64_t k = 0; k < task.c; k += Tile::k) {
      for (Bits<T>& bits : step->data) bits = to_bits<T>(NAN);
      for (int thread = 0; thread < Tile::threads; ++thread)
        Copy::copy(step->data, task, Copy::source_of(task, origin), k, thread);
      for (int warp = 0; warp < Tile::warps; ++warp)
        for (int j = 0; j < Products::planes; j += Products::group)
          for (int column = 0; column < Tile::k; column += 16)
            emulate_group<T, LAYOUT, Tile>(&registers[warp * 32], step->data, warp, j, column);
    }
    for (int thread = 0; thread < Tile::threads; ++thread) Store::add_bias(registers[thread], task, origin, thread);
    for (int thread = 0; thread < Tile::threads; ++thread) Store::store(registers[thread], task, origin, thread);
  }
}

// An operand of exactly `size` elements, at an address that is only element-aligned when `shift` is 1.
template <class T>
struct Buffer {
  explicit Buffer(int64_t size, int shift = 0)
      : memory(std::malloc((size + shift) * sizeof(Bits<T>))), data(static_cast<Bits<T>*>(memory) + shift) {}
  ~Buffer() { std::free(memory); }
  Buffer(const Buffer&) = delete;
  void* memory;
  Bits<T>* data;
};

struct Case {
  int64_t a, b, c, d, batch;
  Layout layout;
  int64_t padding;  // x_stride beyond the row's length
  int shift;        // elements by which the operands' addresses are off alignment
  int order;        // of the weights in memory: 0 = (a, d, b, c), 1 = (a, b, c, d), 2 = (d, c, b, a), 3 = spread out,
                    // 4 = (a, d, c, b)
  bool has_bias;
  bool matrix_units;
  bool large;     // whether float32 gets the tiles of large problems
  bool small;     // ... or those of small ones
  bool in_parts;  // ... whose blocks have several parts where they may
  int multiprocessors;
  int shared_limit;  // bytes of shared memory that a block may have
};

void weight_strides(const Case& s, int64_t* strides) {
  const int64_t orders[5][4] = {{s.d * s.b * s.c, s.c, 1, s.b * s.c},
                                {s.b * s.c * s.d, s.c * s.d, s.d, 1},
                                {1, s.a, s.a * s.b, s.a * s.b * s.c},
                                {s.b * s.c * s.d * 3, s.c * s.d * 3, s.d * 3, 3},
                                {s.d * s.c * s.b, 1, s.b, s.c * s.b}};
  for (int dim = 0; dim < 4; ++dim) strides[dim] = orders[s.order][dim];
}

template <class T>
void multiply(const Problem& problem, const Operands& operands, const Case& s) {
  if constexpr (std::is_same<T, float>::value) {
    // the lower limit stands for the oldest GPUs here
    const int limit = s.shared_limit > 99 * 1024 ? s.shared_limit : 64 * 1024;
    const auto run = [&](auto choice) {
      using Tile = typename decltype(choice)::Tile;
      emulate_strict<decltype(choice)::layout, Tile>(make_strict_task<Tile>(problem, operands));
      return 0;
    };
    if (s.small && s.in_parts && (s.layout == Layout::batch_last || s.d <= 2)) {
      with_small_strict_tile<4>(problem, s.multiprocessors, [&](auto choice) {
        using Tile = typename decltype(choice)::Tile;
        emulate_strict<decltype(choice)::layout, Tile, 4>(make_strict_task<Tile>(problem, operands));
        return 0;
      });
    } else if (s.small) {
      with_small_strict_tile<1>(problem, s.multiprocessors, run);
    } else {
      with_strict_tile(problem, limit, s.large, run);
    }
    return;
  } else {
    if (s.matrix_units) {
      with_tensor_tile(problem, s.shared_limit, [&](auto choice) {
        using Tile = typename decltype(choice)::Tile;
        constexpr Layout layout = decltype(choice)::layout;
        constexpr int y_vector = TensorStore<T, layout, Tile>::y_vector;
        using Copy = TensorCopy<T, layout, Tile>;
        emulate_tensor<T, layout, Tile>(Copy::template make_tensor_task<y_vector>(problem, operands));
        return 0;
      });
      return;
    }
    with_simt_tile<T>(problem, [&](auto choice) {
      using Tile = typename decltype(choice)::Tile;
      emulate_simt<T, decltype(choice)::layout, Tile>(make_task<T, 4, 4>(problem, operands, Tile::n, Tile::r, Tile::j));
      return 0;
    });
  }
}

template <class T>
double check(const Case& s, std::mt19937& random) {
  const bool first = s.layout == Layout::batch_first;
  const int64_t features = s.a * s.c * s.d, outer = first ? s.batch : features, inner = first ? features : s.batch;
  Operands operands;
  operands.x_stride = inner + s.padding;
  weight_strides(s, operands.weight_strides);
  const int64_t x_size = outer == 0 ? 0 : (outer - 1) * operands.x_stride + inner;
  const int64_t w_size = (s.a * s.b * s.c * s.d - 1) * (s.order == 3 ? 3 : 1) + 1, y_size = s.a * s.b * s.d * s.batch;
  const int64_t rows = s.a * s.b * s.d;
  Buffer<T> x(x_size, s.shift), w(w_size, s.shift), bias(s.has_bias ? rows : 0, s.shift), y(y_size, s.shift);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t e = 0; e < x_size; ++e) x.data[e] = to_bits<T>(uniform(random));
  for (int64_t e = 0; e < w_size; ++e) w.data[e] = to_bits<T>(uniform(random));
  for (int64_t e = 0; s.has_bias && e < rows; ++e) bias.data[e] = to_bits<T>(uniform(random));
  for (int64_t e = 0; e < y_size; ++e) y.data[e] = to_bits<T>(NAN);
  operands.x = x.data, operands.weight = w.data, operands.y = y.data;
  operands.bias = s.has_bias ? bias.data : nullptr;
  const Problem problem = {s.a, s.b, s.c, s.d, s.batch, Dtype::float32, s.layout};

  multiply<T>(problem, operands, s);

  const int64_t* ws = operands.weight_strides;
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < s.a; ++i)
    for (int64_t r = 0; r < s.b; ++r)
      for (int64_t j = 0; j < s.d; ++j)
        for (int64_t n = 0; n < s.batch; ++n) {
          const int64_t row = (i * s.b + r) * s.d + j;
          double sum = s.has_bias ? to_float<T>(bias.data[row]) : 0;
          for (int64_t k = 0; k < s.c; ++k) {
            const int64_t feature = (i * s.c + k) * s.d + j;
            const int64_t at = first ? n * operands.x_stride + feature : feature * operands.x_stride + n;
            sum += static_cast<double>(to_float<T>(x.data[at])) *
                   to_float<T>(w.data[i * ws[0] + r * ws[1] + k * ws[2] + j * ws[3]]);
          }
          const double error = to_float<T>(y.data[first ? n * rows + row : row * s.batch + n]) - sum;
          difference += error * error, norm += sum * sum;
        }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

// The rest of a case whose pattern and layout are there.
Case with_random_operands(Case s, std::mt19937& random) {
  s.padding = random() % 3 == 0 ? 0 : random() % 2 == 0 ? 8 : static_cast<int64_t>(random() % 5);
  s.shift = random() % 4 == 0;
  s.order = static_cast<int>(random() % 5);
  s.has_bias = random() % 2 == 0;
  s.matrix_units = random() % 4 != 0;
  return s;
}

template <class T>
bool is_right(const char* name, const Case& s, double tolerance, std::mt19937& random) {
  const double error = check<T>(s, random);
  if (error < tolerance) return true;
  std::printf(
      "%s (%ld,%ld,%ld,%ld) batch %ld layout %d padding %ld shift %d order %d bias %d units %d large %d small %d limit "
      "%d: "
      "error "
      "%g\n",
      name, s.a, s.b, s.c, s.d, s.batch, static_cast<int>(s.layout), s.padding, s.shift, s.order, s.has_bias,
      s.matrix_units, s.large, s.small, s.shared_limit, error);
  return false;
}

template <class T>
int run(const char* name, double tolerance, int count, unsigned seed) {
  std::mt19937 random(seed);
  const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 40, 48, 56, 64, 65, 96, 100, 130, 192};
  const int64_t groups[] = {1, 1, 2, 2, 3, 4, 5, 7, 8, 12, 16, 20, 24};
  const int64_t batches[] = {0, 1, 2, 3, 7, 8, 31, 64, 77, 128, 130};
  const auto any = [&](const auto& list) { return list[random() % (sizeof list / sizeof *list)]; };
  int wrong = 0;
  for (int index = 0; index < count; ++index) {
    Case s;
    s.a = random() % 3 + 1, s.b = any(sizes), s.c = any(sizes), s.d = any(groups), s.batch = any(batches);
    s.layout = index % 2 == 0 ? Layout::batch_first : Layout::batch_last;
    s.large = random() % 2 == 0, s.small = random() % 3 == 0, s.in_parts = random() % 2 == 0;
    s.multiprocessors = 1 + static_cast<int>(random() % 140);
    s.shared_limit = random() % 2 == 0 ? 227 * 1024 : 99 * 1024;
    wrong += !is_right<T>(name, with_random_operands(s, random), tolerance, random);
  }
  std::printf("%s: %d of %d wrong\n", name, wrong, count);
  return wrong;
}

// Each tile of the strict kernel in turn, whole and cut off.
int run_strict_tiles(int count, unsigned seed) {
  struct Shape {
    int64_t b, c, d;
    bool large;
    int shared_limit;
  };
  constexpr int most = 227 * 1024, least = 64 * 1024;
  const Shape first[] = {
      {128, 20, 1, false, most}, {96, 260, 1, true, most},  {64, 20, 1, false, most}, {48, 20, 1, false, most},
      {32, 20, 1, false, most},  {128, 20, 2, false, most}, {64, 20, 2, false, most}, {32, 20, 2, false, most},
      {64, 20, 3, false, most},  {48, 20, 3, false, most},  {96, 20, 4, false, most}, {64, 20, 4, false, most},
      {64, 20, 4, false, least}, {48, 20, 4, false, most},  {32, 20, 4, false, most}, {64, 20, 6, false, most},
      {96, 20, 8, false, most},  {64, 20, 8, false, most},  {48, 20, 8, false, most}, {96, 20, 8, false, least}};
  const Shape last[] = {{128, 130, 2, true, most},
                        {96, 260, 2, true, most},
                        {64, 20, 2, false, most},
                        {48, 20, 2, false, most},
                        {32, 20, 2, false, most}};
  std::mt19937 random(seed);
  int wrong = 0;
  for (int index = 0; index < count; ++index) {
    const bool is_first = index % 4 != 3;
    const Shape& shape = is_first ? first[(index - index / 4) % std::size(first)] : last[index / 4 % std::size(last)];
    Case s;
    s.a = 2, s.b = shape.b, s.c = shape.c, s.d = shape.d, s.large = shape.large, s.shared_limit = shape.shared_limit;
    s.small = random() % 3 == 0, s.in_parts = random() % 2 == 0;
    s.multiprocessors = 1 + static_cast<int>(random() % 140);
    s.layout = is_first ? Layout::batch_first : Layout::batch_last;
    s.batch = random() % 2 == 0 ? 256 : 130;
    if (random() % 2 == 0) s.b -= static_cast<int64_t>(random() % 4);
    wrong += !is_right<float>("strict", with_random_operands(s, random), 1e-6, random);
  }
  std::printf("strict tiles: %d of %d wrong\n", wrong, count);
  return wrong;
}

int main(int count, char** arguments) {
  const int cases = count > 1 ? std::atoi(arguments[1]) : 200;
  const unsigned seed = count > 2 ? static_cast<unsigned>(std::atoi(arguments[2])) : 0;
  const int wrong = run<float>("float32", 1e-6, cases, seed) + run<float16>("float16", 1e-3, cases, seed) +
                    run<bfloat16>("bfloat16", 8e-3, cases, seed) + run_strict_tiles(cases, seed);
  return wrong == 0 ? 0 : 1;
}
