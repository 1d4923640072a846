// What the cost model predicts on an H200 or H100, on a machine without a GPU; benchmarks/cost_model.py asks it. A few
// minutes:
//
//     nvcc -O1 -t 0 -std=c++17 -arch=sm_90a -DKSMM_SM90A -o cost_model cost_model.cu \
//         $(find ../ksmm/csrc/cuda -name '*.cu' ! -name multiply.cu)
//     ./cost_model nvidia-h200 float16 batch_first 25088 4,64,64,16 1,192,192,48
//
// A line for each pattern: the configurations that take it by name, with microseconds, the choice first. The dtype
// "strict" is float32 in multiply-adds alone.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "../ksmm/csrc/cuda/multiply.cu"

using namespace ksmm;

// The rates as machine.cu gives them there; of the two devices, memory alone differs.
Machine machine_of(bool h200) {
  Machine machine = {};
  machine.capability = 90, machine.multiprocessors = 132, machine.pairs = 66, machine.quads = 30, machine.octets = 15,
  machine.shared_limit = 232448, machine.overlaps = true;
  machine.memory_rate = h200 ? 4.29e12 : 2.95e12, machine.cache_rate = 5.5e12, machine.matrix_rate = 7.23e14,
  machine.float_rate = 51e12;
  return machine;
}

void predict(const Problem& problem, const Machine& machine) {
  Operands operands = {};
  operands.x_stride = problem.layout == Layout::batch_first ? problem.a * problem.c * problem.d : problem.batch;
  operands = once_arranged(problem, operands);
  const Candidates candidates = {problem, operands, true, machine, true};  // a weight that is kept, as when tuning
  std::vector<std::pair<double, const char*>> times;
  for (const Configuration& configuration : all())
    if (candidates.takes(configuration)) times.push_back({candidates.seconds(configuration) * 1e6, configuration.name});
  std::stable_sort(times.begin(), times.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
  for (const auto& [time, name] : times) std::printf("\t%s\t%.1f", name, time);
}

int main(int count, char** words) {
  const std::string device = count > 1 ? words[1] : "";
  if (device != "nvidia-h200" && device != "nvidia-h100-80gb-hbm3") {
    std::fprintf(stderr, "%s is neither nvidia-h200 nor nvidia-h100-80gb-hbm3\n", device.c_str());
    return 2;
  }
  for (int at = 5; at < count; ++at) {
    Problem problem = {};
    long long a, b, c, d;
    if (std::sscanf(words[at], "%lld,%lld,%lld,%lld", &a, &b, &c, &d) != 4) {
      std::fprintf(stderr, "%s is no pattern a,b,c,d\n", words[at]);
      return 2;
    }
    problem.a = a, problem.b = b, problem.c = c, problem.d = d, problem.batch = std::atoll(words[4]);
    const std::string dtype = words[2];
    problem.dtype = dtype == "float16" ? Dtype::float16 : dtype == "bfloat16" ? Dtype::bfloat16 : Dtype::float32;
    problem.layout = std::string(words[3]) == "batch_first" ? Layout::batch_first : Layout::batch_last;
    problem.precision = dtype == "strict" ? Precision::strict : Precision::compensated;
    std::printf("%s", words[at]);
    predict(problem, machine_of(device == "nvidia-h200"));
    std::printf("\n");
  }
}
