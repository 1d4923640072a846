// What the cost model learns of a device (machine.cu), from a CUDA that is made up: any of its answers may be an error,
// the first time, and the code may be compiled for less than the device is capable of.
//
//     nvcc -std=c++17 -o emulate_machine emulate_machine.cu && ./emulate_machine 100 1
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <random>

namespace {

int present, capability, compiled_for;
int questions, failing;  // so many were asked so far; this one is answered with an error
cudaError_t left_behind;

cudaError_t answer() {
  if (questions++ != failing) return cudaSuccess;
  return left_behind = cudaErrorUnknown;
}

cudaError_t get_properties(cudaDeviceProp* properties, int) {
  *properties = {};
  properties->major = capability / 10, properties->minor = capability % 10;
  properties->multiProcessorCount = 132, properties->memoryBusWidth = 6144;
  properties->sharedMemPerBlockOptin = 232448;
  return answer();
}

cudaError_t get_attributes(cudaFuncAttributes* attributes) {
  *attributes = {};
  attributes->ptxVersion = compiled_for;
  return answer();
}

}  // namespace

#undef cudaGetDeviceProperties
#define cudaGetDevice(found) (*(found) = present, answer())
#define cudaGetDeviceProperties(properties, device) get_properties(properties, device)
#define cudaDeviceGetAttribute(value, name, device) (*(value) = 1980000, answer())
#define cudaFuncSetAttribute(...) answer()
#define cudaFuncGetAttributes(attributes, kernel) get_attributes(attributes)
#define cudaOccupancyMaxActiveClusters(count, kernel, launch) (*(count) = (launch)->numAttrs > 0 ? 66 : 0, answer())
#define cudaGetLastError() (left_behind = cudaSuccess)
#include "../../ksmm/csrc/cuda/machine.cu"

// Whether it is known at last, and was said not to be where it was not.
bool is_right(std::mt19937& random) {
  constexpr int capabilities[] = {80, 89, 90, 100}, targets[] = {80, 90};
  ++present;
  capability = capabilities[random() % 4];
  compiled_for = capability < 90 ? 80 : targets[random() % 2];
  questions = 0, failing = static_cast<int>(random() % 12);  // some are never asked
  ksmm::Machine machine = {};
  bool right = true;
  for (int time = 0; time < 3; ++time) {
    machine = {};
    if (time == 2) failing = -1;
    const int before = questions;
    const cudaError_t error = ksmm::current_machine(&machine);
    const bool asked = before <= failing && failing < questions;
    right = right && left_behind == cudaSuccess && (error == cudaSuccess || asked);
    right = right && (error != cudaSuccess || (machine.multiprocessors == 132 && machine.memory_rate > 0 &&
                                               machine.matrix_rate > 0 && machine.float_rate > 0));
  }
  return right && machine.overlaps == (compiled_for == 90) && (capability != 90 || machine.pairs == 66);
}

int main(int, char** arguments) {
  const int cases = std::atoi(arguments[1]);
  std::mt19937 random(static_cast<unsigned>(std::atoi(arguments[2])));
  int wrong = 0;
  for (int at = 0; at < cases; ++at) wrong += !is_right(random);
  std::printf("machines: %d of %d wrong\n", wrong, cases);
  return wrong > 0;
}
