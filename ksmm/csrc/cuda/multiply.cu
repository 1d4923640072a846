// The entry points: all configurations in one list, the cost model's choice among them, and the launch.
#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../ks_matmul.h"
#include "arrange.cuh"
#include "configuration.h"
#include "few.h"
#include "hopper/chain_kernel.h"
#include "hopper/exchange_family.h"
#include "hopper/gemm.h"
#include "hopper/planes.h"
#include "hopper/shifted.h"
#include "hopper/tf32.cuh"
#include "hopper/three_passes.h"
#include "padded.h"
#include "portable.cuh"
#include "strict_small.h"

namespace ksmm {
namespace {

const std::vector<Configuration>& all() {
  static const std::vector<Configuration> configurations = [] {
    std::vector<Configuration> list;
    for (const Configurations family :
         {portable_configurations(), gemm_configurations(), hopper::planes_configurations(),
          hopper::three_pass_configurations(), hopper::overlapped_pass_configurations(),
          hopper::exchange_configurations(), tf32_configurations(), hopper::shifted_configurations(),
          padded_configurations(), few_configurations(), small_strict_configurations()})
      list.insert(list.end(), family.data, family.data + family.count);
    return list;
  }();
  return configurations;
}

// The operands as they will be when the weight has been arranged; its address does not matter, but must be aligned.
Operands once_arranged(const Problem& problem, Operands operands) {
  operands.weight = nullptr;
  stride_as_arranged(problem, &operands);
  return operands;
}

struct Candidates {
  const Problem& problem;
  const Operands& operands;
  bool keeps_weight;
  Machine machine;
  bool arranged;

  bool takes(const Configuration& configuration) const {
    if (!configuration.arranged_weight || arranged) return configuration.takes(problem, operands, machine);
    return configuration.takes(problem, once_arranged(problem, operands), machine);
  }
  // Arranging the weight takes a launch, reads it in some order and writes it.
  double seconds(const Configuration& configuration) const {
    const double predicted = configuration.seconds(problem, machine);
    const bool keeps = keeps_weight && configuration.saved_seconds != nullptr;
    if (!configuration.arranged_weight || arranged)
      return keeps ? predicted - configuration.saved_seconds(problem, machine) : predicted;
    const double bytes = 4.0 * problem.a * problem.b * problem.c * problem.d;
    return predicted + 3e-6 + 3 * bytes / machine.memory_rate;
  }
};

cudaError_t search(const Problem& problem, const Operands& operands, bool keeps_weight, int wanted, int* found,
                   bool* arranged) {
  Candidates candidates = {problem, operands, keeps_weight, {}, is_arranged(problem, operands)};
  *arranged = candidates.arranged;
  *found = -1;
  const cudaError_t error = current_machine(&candidates.machine);
  if (error != cudaSuccess) return error;
  if (wanted >= 0 && wanted < configuration_count() && candidates.takes(all()[wanted])) {
    *found = wanted;
    return cudaSuccess;
  }
  double least = 0;
  for (int index = 0; index < configuration_count(); ++index) {
    if (!candidates.takes(all()[index])) continue;
    const double seconds = candidates.seconds(all()[index]);
    if (*found < 0 || seconds < least) least = seconds, *found = index;
  }
  return *found < 0 ? cudaErrorInvalidValue : cudaSuccess;
}

// All that a choice depends on: a search takes several microseconds, as long as a small product.
struct Question {
  std::array<int64_t, 19> numbers;

  bool operator==(const Question& other) const { return numbers == other.numbers; }
};

struct Hash {
  size_t operator()(const Question& question) const {
    uint64_t hash = 14695981039346656037u;  // Fowler, Noll and Vo's, on words
    for (const int64_t number : question.numbers) hash = (hash ^ static_cast<uint64_t>(number)) * 1099511628211u;
    return hash ^ hash >> 32;
  }
};

struct Answer {
  int found;
  bool arranged;
};

// keeps_weight: whether what a configuration makes of the weight is kept for many products.
cudaError_t find(const Problem& problem, const Operands& operands, bool keeps_weight, int wanted, int* found,
                 bool* arranged) {
  constexpr size_t most_answers = 4096;
  thread_local std::unordered_map<Question, Answer, Hash> answers;
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  const auto alignment = [](const void* address) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(address) % 16);
  };
  const int64_t* strides = operands.weight_strides;
  const Question question = {{problem.a, problem.b, problem.c, problem.d, problem.batch,
                              static_cast<int64_t>(problem.dtype), static_cast<int64_t>(problem.layout),
                              static_cast<int64_t>(problem.precision), operands.x_stride, strides[0], strides[1],
                              strides[2], strides[3], alignment(operands.x), alignment(operands.weight),
                              alignment(operands.y), keeps_weight, wanted, device}};
  const auto known = answers.find(question);
  if (known == answers.end()) {
    error = search(problem, operands, keeps_weight, wanted, found, arranged);
    if (error != cudaSuccess) return error;
    if (answers.size() >= most_answers) answers.clear();
    answers[question] = {*found, *arranged};
    return cudaSuccess;
  }
  *found = known->second.found, *arranged = known->second.arranged;
  return cudaSuccess;
}

struct ChainCandidate {
  const hopper::ChainKernel* kernel;
  double seconds;  // infinite where the kernel does not take the chain
};

std::array<ChainCandidate, 3> quickest_first(const Problem& inner, const Problem& outer, const Machine& machine) {
  std::array<ChainCandidate, 3> candidates = {{{&hopper::fused}, {&hopper::fused_streamed}, {&hopper::few_chain}}};
  for (ChainCandidate& candidate : candidates) candidate.seconds = candidate.kernel->seconds(inner, outer, machine);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const ChainCandidate& one, const ChainCandidate& other) { return one.seconds < other.seconds; });
  return candidates;
}

}  // namespace

double least_seconds(const Problem& problem, const Machine& machine) {
  const bool first = problem.layout == Layout::batch_first;
  Operands operands = {};
  operands.x_stride = first ? problem.a * problem.c * problem.d : problem.batch;
  operands = once_arranged(problem, operands);
  double least = INFINITY;
  for (const Configuration& configuration : all())
    if (configuration.takes(problem, operands, machine))
      least = std::min(least, configuration.seconds(problem, machine));
  return least;
}

int configuration_count() { return static_cast<int>(all().size()); }

const char* configuration_name(int configuration) { return all()[configuration].name; }

bool configuration_takes(int configuration, const Problem& problem, const Operands& operands) {
  Candidates candidates = {problem, operands, false, {}, is_arranged(problem, operands)};
  return current_machine(&candidates.machine) == cudaSuccess && candidates.takes(all()[configuration]);
}

int choose_configuration(const Problem& problem, const Operands& operands, bool keeps_weight, int* chosen) {
  bool arranged = false;
  return find(problem, operands, keeps_weight, -1, chosen, &arranged);
}

int multiply_cuda(const Problem& problem, const Operands& operands, int configuration, const Workspace& workspace,
                  void* stream) {
  if (problem.batch == 0) return cudaSuccess;  // an empty grid is an error to CUDA
  const auto queue = static_cast<cudaStream_t>(stream);
  int found = -1;
  bool arranged = false;
  cudaError_t error = find(problem, operands, false, configuration, &found, &arranged);
  if (error != cudaSuccess) return error;
  Operands used = operands;
  if (found != configuration) used.prepared = {};  // for that one
  if (all()[found].arranged_weight && !arranged) error = arrange_weight(problem, &used, workspace, queue);
  if (error != cudaSuccess) return error;
  Machine machine;
  error = current_machine(&machine);
  return error == cudaSuccess ? all()[found].launch(problem, used, machine, workspace, queue) : error;
}

int prepare_weight_cuda(const Problem& problem, Operands* operands, int configuration, int* chosen,
                        const Workspace& workspace, void* stream) {
  bool arranged = false;
  const cudaError_t error = find(problem, *operands, true, configuration, chosen, &arranged);
  if (error != cudaSuccess) return error;
  const Configuration& found = all()[*chosen];
  if (found.kept == nullptr || (found.arranged_weight && !arranged)) return cudaSuccess;
  return found.prepare(problem, operands, workspace, static_cast<cudaStream_t>(stream));
}

KeptWeight kept_weight(int configuration, const Problem& problem) {
  const bool keeps =
      configuration >= 0 && configuration < configuration_count() && all()[configuration].kept != nullptr;
  return keeps ? all()[configuration].kept(problem) : KeptWeight{};
}

bool chain_pays(const Problem& inner, const Problem& outer) {
  constexpr size_t most_answers = 4096;
  thread_local std::unordered_map<Question, bool, Hash> answers;
  Machine machine;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || current_machine(&machine) != cudaSuccess) return false;
  const Question question = {{inner.a, inner.b, inner.c, inner.d, outer.a, outer.b, outer.c, outer.d, inner.batch,
                              static_cast<int64_t>(inner.dtype), device}};
  const auto known = answers.find(question);
  if (known != answers.end()) return known->second;
  const double one_launch = quickest_first(inner, outer, machine)[0].seconds;
  // the second of two launches waits for the first, which the time of neither shows
  const double two_launches = least_seconds(inner, machine) + least_seconds(outer, machine) + 1e-6;
  const bool pays = std::isfinite(one_launch) && one_launch < two_launches;
  if (answers.size() >= most_answers) answers.clear();
  answers[question] = pays;
  return pays;
}

bool multiply_chain_cuda(const Problem& inner, const Operands& of_inner, const Problem& outer, const Operands& of_outer,
                         void* stream, int* error) {
  Machine machine;
  cudaError_t found = current_machine(&machine);
  if (found != cudaSuccess) return *error = found, true;
  found = cudaErrorNotSupported;
  for (const ChainCandidate& candidate : quickest_first(inner, outer, machine))
    if (found == cudaErrorNotSupported)
      found = candidate.kernel->multiply(inner, of_inner, outer, of_outer, machine, static_cast<cudaStream_t>(stream));
  *error = found;
  return found != cudaErrorNotSupported;
}

}  // namespace ksmm
