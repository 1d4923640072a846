// What a product takes among others like it that follow each other, of the same X, of others, or each of what the one
// before wrote: the L2 cache still holds some of the first and the last, and nothing of the second.
//
//     nvcc -O3 -t 0 -std=c++17 -gencode=arch=compute_90a,code=sm_90a -DKSMM_SM90A -o consecutive_products \
//         consecutive_products.cu $(find ../ksmm/csrc/cuda -name '*.cu')
//     ./consecutive_products float16 batch_last 25088 4,128,128,4 "1,512,128,32:gemm alternating 128"
//
// A row for each pattern (its configuration behind a colon, else the cost model's choice) and kind of X, as CSV: the
// median microseconds of a product, of graphs of ten that take turns, with rests in between so that the power limit
// does not rule. To compare two commits, build this file in a checkout of each, and run the programs in turns.
#include <cuda_fp16.h>

#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "../ksmm/csrc/ks_matmul.h"
#include "hopper_limits.h"

using namespace ksmm;

namespace {

constexpr int products = 10, rounds = 15, others = 4;  // of a graph; of the graphs; X and Y that take turns
constexpr size_t scratch_bytes = size_t{6} << 30;

// What kind of X follows.
enum class Following { same, others, chain };
constexpr const char* names[] = {"same", "others", "chain"};

// Numbers between -scale and scale, by a hash of where they are.
template <class Number>
__global__ void fill(Number* numbers, size_t count, unsigned seed, float scale) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t at = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; at < count; at += stride) {
    unsigned hash = static_cast<unsigned>(at * 2654435761u) ^ seed;
    hash ^= hash >> 16, hash *= 0x7feb352du, hash ^= hash >> 15, hash *= 0x846ca68bu, hash ^= hash >> 16;
    numbers[at] = static_cast<Number>(((hash & 0xffff) / 32768.f - 1) * scale);
  }
}

// Memory of the calls, each from the beginning: they follow each other on one stream.
struct Scratch {
  char* begin;
  size_t used;
  static void* allocate(size_t bytes, void* context) {
    auto& scratch = *static_cast<Scratch*>(context);
    void* const place = scratch.begin + scratch.used;
    scratch.used += (bytes + 255) / 256 * 256;
    if (scratch.used <= scratch_bytes) return place;
    std::fprintf(stderr, "a product needs more than %zu bytes of memory of its own\n", scratch_bytes);
    std::exit(1);
  }
};

struct Products {
  Problem problem;
  int configuration;
  char *x[others], *y[others], *weight;
  Scratch scratch;
  cudaStream_t stream;

  size_t bytes(int64_t numbers) const { return static_cast<size_t>(numbers * size_of(problem.dtype)); }

  void* filled(int64_t count, unsigned seed, float scale) const {
    void* numbers = nullptr;
    check(cudaMalloc(&numbers, bytes(count)));
    const size_t all = static_cast<size_t>(count);
    if (problem.dtype == Dtype::float32)
      fill<<<1024, 256, 0, stream>>>(static_cast<float*>(numbers), all, seed, scale);
    else
      fill<<<1024, 256, 0, stream>>>(static_cast<__half*>(numbers), all, seed, scale);
    check(cudaGetLastError());
    return numbers;
  }

  Products(const Problem& problem, Scratch scratch, cudaStream_t stream)
      : problem(problem), configuration(-1), scratch(scratch), stream(stream) {
    const int64_t planes = problem.a * problem.d;
    for (int at = 0; at < others; ++at) {
      x[at] = static_cast<char*>(filled(planes * problem.c * problem.batch, 1u + at, 1));
      y[at] = static_cast<char*>(filled(planes * problem.b * problem.batch, 11u + at, 1));
    }
    weight = static_cast<char*>(filled(planes * problem.b * problem.c, 21, 1.7f / std::sqrt(1.f * problem.c)));
  }
  ~Products() {
    for (int at = 0; at < others; ++at) check(cudaFree(x[at])), check(cudaFree(y[at]));
    check(cudaFree(weight));
  }

  // W as the kernel packs it (csrc/gradients.cpp): k contiguous in 16 bits, r in float32.
  Operands operands(const char* from, char* to) const {
    Operands all = {};
    const bool first = problem.layout == Layout::batch_first, by_k = problem.dtype != Dtype::float32;
    all.x = from, all.y = to, all.weight = weight;
    all.x_stride = first ? problem.a * problem.c * problem.d : problem.batch;
    all.weight_strides[0] = problem.d * problem.b * problem.c, all.weight_strides[3] = problem.b * problem.c;
    all.weight_strides[1] = by_k ? problem.c : 1, all.weight_strides[2] = by_k ? 1 : problem.b;
    return all;
  }

  void enqueue(Following following, int number) {
    scratch.used = 0;
    const int at = following == Following::others ? number % others : 0, turn = number % 2;
    const bool chain = following == Following::chain;
    const Operands all = chain ? operands(x[turn], x[1 - turn]) : operands(x[at], y[at]);
    check(static_cast<cudaError_t>(multiply_cuda(problem, all, configuration, {Scratch::allocate, &scratch}, stream)));
  }

  cudaGraphExec_t graph(Following following) {
    cudaGraph_t recorded;
    cudaGraphExec_t graph;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int number = 0; number < products; ++number) enqueue(following, number);
    check(cudaStreamEndCapture(stream, &recorded));
    check(cudaGraphInstantiate(&graph, recorded, 0ull));
    check(cudaGraphDestroy(recorded));
    return graph;
  }
};

float microseconds_of(cudaGraphExec_t graph, cudaStream_t stream) {
  cudaEvent_t begin, end;
  float milliseconds = 0;
  check(cudaEventCreate(&begin)), check(cudaEventCreate(&end));
  check(cudaEventRecord(begin, stream));
  check(cudaGraphLaunch(graph, stream));
  check(cudaEventRecord(end, stream));
  check(cudaStreamSynchronize(stream));
  check(cudaEventElapsedTime(&milliseconds, begin, end));
  check(cudaEventDestroy(begin)), check(cudaEventDestroy(end));
  std::this_thread::sleep_for(std::chrono::milliseconds(8));
  return 1e3f * milliseconds / products;
}

// False where there is no such configuration, or it does not take the problem.
bool find_configuration(const std::string& name, Products* of) {
  if (name.empty()) return true;
  for (int number = 0; number < configuration_count(); ++number)
    if (name == configuration_name(number)) of->configuration = number;
  return of->configuration >= 0 &&
         configuration_takes(of->configuration, of->problem, of->operands(of->x[0], of->y[0]));
}

void measure(const char* word, Products& of) {
  std::vector<Following> kinds = {Following::same, Following::others};
  if (of.problem.b == of.problem.c) kinds.push_back(Following::chain);
  std::vector<cudaGraphExec_t> graphs;
  of.enqueue(Following::same, 0);  // what a first launch asks the device
  check(cudaStreamSynchronize(of.stream));
  for (const Following kind : kinds) graphs.push_back(of.graph(kind));
  std::vector<std::vector<float>> times(kinds.size());
  for (int round = -1; round < rounds; ++round)  // the first is not counted
    for (size_t at = 0; at < kinds.size(); ++at) {
      const float time = microseconds_of(graphs[at], of.stream);
      if (round >= 0) times[at].push_back(time);
    }
  for (size_t at = 0; at < kinds.size(); ++at) {
    std::nth_element(times[at].begin(), times[at].begin() + rounds / 2, times[at].end());
    std::printf("\"%s\",%s,%.2f\n", word, names[static_cast<int>(kinds[at])], times[at][rounds / 2]);
    check(cudaGraphExecDestroy(graphs[at]));
  }
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  const std::string dtype = count > 1 ? words[1] : "", layout = count > 2 ? words[2] : "";
  if (count < 5 || (dtype != "float16" && dtype != "float32") || (layout != "batch_first" && layout != "batch_last")) {
    std::fprintf(stderr, "usage: %s float16|float32 batch_first|batch_last BATCH a,b,c,d[:CONFIGURATION] ...\n",
                 words[0]);
    return 2;
  }
  cudaStream_t stream;
  Scratch scratch = {};
  check(cudaStreamCreate(&stream));
  check(cudaMalloc(&scratch.begin, scratch_bytes));
  std::printf("product,x,microseconds\n");
  for (int at = 4; at < count; ++at) {
    Problem problem = {};
    long long a, b, c, d;
    int end = 0;
    if (std::sscanf(words[at], "%lld,%lld,%lld,%lld%n", &a, &b, &c, &d, &end) != 4) {
      std::fprintf(stderr, "%s is no pattern a,b,c,d\n", words[at]);
      return 2;
    }
    problem.a = a, problem.b = b, problem.c = c, problem.d = d, problem.batch = std::atoll(words[3]);
    problem.dtype = dtype == "float16" ? Dtype::float16 : Dtype::float32;
    problem.layout = layout == "batch_first" ? Layout::batch_first : Layout::batch_last;
    problem.precision = Precision::compensated;
    Products of(problem, scratch, stream);
    const std::string name = words[at][end] == ':' ? words[at] + end + 1 : "";
    if (!find_configuration(name, &of)) {
      std::fprintf(stderr, "%s: no configuration \"%s\" takes this product\n", words[at], name.c_str());
      return 2;
    }
    measure(words[at], of);
  }
}
