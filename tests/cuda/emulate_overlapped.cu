// Enqueues overlapped passes on streams that only note what waits for what, and then does the work on the CPU in any
// order that the notes allow, by chance: what is not waited for comes out wrong.
//
// Needs nvcc but no GPU. Transpositions, products and side streams are the ones below, which stand in for those of the
// library; the choice of parts and what is enqueued in which order are the library's.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#define KSMM_SM90A
#include "../../ksmm/csrc/cuda/hopper/overlapped_passes.cu"

using namespace ksmm;

struct Work {
  std::function<void()> run;
  std::vector<size_t> after;
};

// What was enqueued; the last piece of each stream, and what its next one waits for beside that.
struct Queue {
  std::vector<Work> all;
  std::map<cudaStream_t, size_t> last;
  std::map<cudaStream_t, std::vector<size_t>> waits;

  cudaError_t add(cudaStream_t stream, std::function<void()> run) {
    std::vector<size_t> after = std::move(waits[stream]);
    waits[stream].clear();
    if (last.count(stream) > 0) after.push_back(last[stream]);
    last[stream] = all.size();
    all.push_back({std::move(run), after});
    return cudaSuccess;
  }
  void wait(cudaStream_t one, cudaStream_t other) {
    if (last.count(other) > 0) waits[one].push_back(last[other]);
  }
};
Queue queue;
double product_seconds, memory_rate;  // of a row; of which the one or the other weighs more, and parts are few or many

const auto main_stream = reinterpret_cast<cudaStream_t>(1);

namespace ksmm {

bool can_transpose(const Transposition&) { return true; }
cudaError_t transpose(const Transposition& of, cudaStream_t stream) {
  return queue.add(stream, [of] {
    for (int64_t m = 0; m < of.matrices; ++m)
      for (int64_t p = 0; p < of.rows; ++p)
        for (int64_t q = 0; q < of.columns; ++q)
          static_cast<float*>(of.destination)[(m * of.columns + q) * of.rows + p] =
              static_cast<const float*>(of.source)[(m * of.rows + p) * of.columns + q];
  });
}

// planes: X is [n][i][j][k], as it is between two passes.
void multiply(const Problem& of, const Operands& by, bool planes = false) {
  const bool last = of.layout == Layout::batch_last;
  const auto *x = static_cast<const float*>(by.x), *weight = static_cast<const float*>(by.weight);
  const auto* bias = static_cast<const float*>(by.bias);
  for (int64_t n = 0; n < of.batch; ++n)
    for (int64_t i = 0; i < of.a; ++i)
      for (int64_t r = 0; r < of.b; ++r)
        for (int64_t j = 0; j < of.d; ++j) {
          const int64_t row = (i * of.b + r) * of.d + j;
          float sum = bias == nullptr ? 0 : bias[row];
          for (int64_t k = 0; k < of.c; ++k) {
            const int64_t feature = planes ? (i * of.d + j) * of.c + k : (i * of.c + k) * of.d + j;
            const int64_t* strides = by.weight_strides;
            sum += x[last ? feature * by.x_stride + n : n * by.x_stride + feature] *
                   weight[i * strides[0] + r * strides[1] + k * strides[2] + j * strides[3]];
          }
          static_cast<float*>(by.y)[last ? row * of.batch + n : n * of.a * of.b * of.d + row] = sum;
        }
}

template <bool PLANES>
constexpr Configuration product = {
    "product", false, [](const Problem&, const Operands&, const Machine&) { return true; },
    [](const Problem& problem, const Machine& machine) {
      return 1e-6 + product_seconds * static_cast<double>(problem.batch) * 132 / machine.multiprocessors;
    },
    [](const Problem& problem, const Operands& operands, const Machine&, const Workspace&, cudaStream_t stream) {
      return queue.add(stream, [=] { multiply(problem, operands, PLANES); });
    }};
Configurations tf32_configurations() { return {&product<false>, 1}; }
Configurations gemm_configurations() { return {nullptr, 0}; }
Configurations portable_configurations() { return {&product<false>, 1}; }

// From [i][r][j] to [i][j][r].
cudaError_t arrange_bias(const Problem& problem, const void** bias, const Workspace& workspace, cudaStream_t stream) {
  const auto* from = static_cast<const float*>(*bias);
  const size_t bytes = static_cast<size_t>(problem.a * problem.b * problem.d) * sizeof(float);
  auto* to = static_cast<float*>(workspace.allocate(bytes, workspace.context));
  *bias = to;
  return transpose({4, from, to, problem.a, problem.b, problem.d}, stream);
}

namespace hopper {

Configurations exchange_products() { return {&product<true>, 1}; }

SideStream::SideStream(cudaStream_t main) : main_(main), error_(cudaSuccess) {
  static uintptr_t borrowed = 1;
  lane_ = reinterpret_cast<Lane*>(++borrowed);
}
SideStream::~SideStream() = default;
cudaStream_t SideStream::stream() const { return reinterpret_cast<cudaStream_t>(lane_); }
cudaError_t SideStream::wait_for_main() { return queue.wait(stream(), main_), cudaSuccess; }
cudaError_t SideStream::join() { return queue.wait(main_, stream()), cudaSuccess; }

}  // namespace hopper
}  // namespace ksmm

// Everything in an order by chance, in which each piece comes after what it waits for. The last one is whatever follows
// the call on its stream: that all work comes before it is seen by doing nothing after it.
void run_all(std::mt19937& random) {
  size_t left = queue.all.size();
  std::vector<bool> done(left, false);
  while (!done.back()) {
    std::vector<size_t> ready;
    for (size_t at = 0; at < queue.all.size(); ++at) {
      bool may = !done[at];
      for (const size_t before : queue.all[at].after) may = may && done[before];
      if (may) ready.push_back(at);
    }
    const size_t at = ready[random() % ready.size()];
    queue.all[at].run();
    done[at] = true;
  }
}

// Small whole numbers, whose products and sums are exact.
std::vector<float> numbers(int64_t count, std::mt19937& random) {
  std::vector<float> made(static_cast<size_t>(count));
  for (float& number : made) number = static_cast<float>(random() % 7) - 3;
  return made;
}

bool is_right(const Configuration& configuration, Problem problem, int multiprocessors, std::mt19937& random) {
  const int64_t rows = problem.a * problem.b * problem.d, columns = problem.a * problem.c * problem.d;
  const std::vector<float> x = numbers(problem.batch * columns, random), bias = numbers(rows, random);
  const std::vector<float> weight = numbers(problem.a * problem.b * problem.c * problem.d, random);
  std::vector<float> y(static_cast<size_t>(problem.batch * rows), NAN), expected = y;
  Operands operands = {};
  operands.x = x.data(), operands.weight = weight.data(), operands.x_stride = columns;
  operands.bias = random() % 2 == 0 ? bias.data() : nullptr, operands.y = expected.data();
  const int64_t plane = problem.b * problem.c, strides[4] = {problem.d * plane, problem.c, 1, plane};
  std::copy(strides, strides + 4, operands.weight_strides);
  multiply(problem, operands);

  Machine machine = {};
  machine.capability = 90, machine.multiprocessors = multiprocessors, machine.pairs = multiprocessors / 2;
  machine.octets = (multiprocessors - 1) / 8;  // which leave some idle
  machine.memory_rate = memory_rate;
  operands.y = y.data();
  std::vector<std::unique_ptr<std::vector<char>>> room;
  const Workspace workspace = {[](size_t bytes, void* context) -> void* {
                                 auto* all = static_cast<decltype(room)*>(context);
                                 all->push_back(std::make_unique<std::vector<char>>(bytes, char(0xff)));  // NaN
                                 return all->back()->data();
                               },
                               &room};
  queue = {};
  if (!configuration.takes(problem, operands, machine)) return false;
  if (configuration.launch(problem, operands, machine, workspace, main_stream) != cudaSuccess) return false;
  queue.add(main_stream, [] {});
  run_all(random);
  return y == expected;
}

int main(int count, char** arguments) {
  const int cases = count > 1 ? std::atoi(arguments[1]) : 200;
  std::mt19937 random(count > 2 ? static_cast<unsigned>(std::atoi(arguments[2])) : 0);
  const auto one_of = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  const Configurations family = hopper::overlapped_pass_configurations();
  int wrong = 0;
  std::map<size_t, int> pieces;  // the more, the more parts
  for (int at = 0; at < family.count; ++at) {
    int failed = 0;
    for (int tried = 0; tried < cases; ++tried) {
      Problem problem = {};
      problem.a = one_of({1, 2}), problem.b = one_of({1, 2, 3}), problem.c = one_of({1, 2, 4});
      problem.d = one_of({2, 3}), problem.batch = one_of({257, 260, 511, 700, 777, 1300, 1536, 2001});
      problem.dtype = Dtype::float32, problem.layout = Layout::batch_first, problem.precision = Precision::strict;
      product_seconds = std::pow(10, -3.0 - static_cast<double>(random() % 5));
      memory_rate = std::pow(10, 6.0 + static_cast<double>(random() % 4));
      if (!is_right(family.data[at], problem, static_cast<int>(one_of({16, 30, 132})), random)) {
        ++failed;
        std::printf("%ld,%ld,%ld,%ld, batch %ld\n", problem.a, problem.b, problem.c, problem.d, problem.batch);
      }
      ++pieces[queue.all.size()];
    }
    std::printf("%s: %d of %d wrong\n", family.data[at].name, failed, cases);
    wrong += failed;
  }
  for (const auto& [size, times] : pieces) std::printf("%zu pieces of work: %d times\n", size, times);
  return wrong == 0 ? 0 : 1;
}
