// What the cost model knows about the current device.
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "configuration.h"
#include "shared_memory.h"

namespace ksmm {
namespace {

__global__ void block_of_cluster() {}

// Multiprocessors lie in groups of up to 18, whose clusters may leave some of them over.
cudaError_t count_clusters(int blocks, const Machine& machine, int* count) {
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(static_cast<unsigned>(blocks)), launch.blockDim = dim3(32);
  launch.dynamicSmemBytes = static_cast<size_t>(machine.shared_limit);
  launch.attrs = &attribute, launch.numAttrs = 1;
  const cudaError_t error =
      cudaFuncSetAttribute(block_of_cluster, cudaFuncAttributeMaxDynamicSharedMemorySize, machine.shared_limit);
  return error == cudaSuccess ? cudaOccupancyMaxActiveClusters(count, block_of_cluster, &launch) : error;
}

// Below 9.0 there is no instruction that waits for the kernels before. The device alone does not tell: a newer one may
// be running translated code of an older one.
cudaError_t ask_what_overlaps(Machine* machine) {
  if (machine->capability < 90) return cudaSuccess;
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, block_of_cluster);
  machine->overlaps = error == cudaSuccess && attributes.ptxVersion >= 90;
  return error;
}

// Rates of one multiprocessor at 1 Hz, and of the memory's pins, that products reach in practice. For compute
// capability 9.0 they give the ceilings that were measured on an H200 (4.29 TB/s, 723 and 51 TFLOP/s).
cudaError_t ask(int device, Machine* machine) {
  cudaDeviceProp properties;
  int clock_in_khz = 0, memory_in_khz = 0;
  cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&clock_in_khz, cudaDevAttrClockRate, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&memory_in_khz, cudaDevAttrMemoryClockRate, device);
  if (error != cudaSuccess) return error;
  machine->capability = properties.major * 10 + properties.minor;
  machine->multiprocessors = properties.multiProcessorCount;
  machine->shared_limit = static_cast<int>(properties.sharedMemPerBlockOptin);
  if (machine->capability == 90) error = count_clusters(2, *machine, &machine->pairs);
  for (const auto& [blocks, count] : {std::pair{4, &machine->quads}, {8, &machine->octets}})
    if (machine->capability == 90 && count_clusters(blocks, *machine, count) != cudaSuccess) {
      cudaGetLastError();  // a part of a device may have no room for so many
      *count = 0;
    }
  if (error == cudaSuccess) error = ask_what_overlaps(machine);
  const double cycles = 1e3 * clock_in_khz * properties.multiProcessorCount;
  const double pins = 2e3 * memory_in_khz * properties.memoryBusWidth / 8;
  const bool wide = machine->capability == 90 || machine->capability / 10 == 10;
  machine->memory_rate = 0.88 * pins;
  machine->cache_rate = 21 * cycles;
  machine->matrix_rate = (wide ? 0.68 * 4096 : 0.7 * (machine->capability == 80 ? 2048 : 1024)) * cycles;
  machine->float_rate = 0.76 * (machine->capability == 80 || machine->capability == 75 ? 128 : 256) * cycles;
  return error;
}

}  // namespace

cudaError_t current_machine(Machine* machine) {
  static std::mutex mutex;
  static std::vector<Machine> known;
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return cudaGetLastError(), error;
  const std::lock_guard<std::mutex> guard(mutex);
  if (device >= static_cast<int>(known.size())) known.resize(device + 1);
  if (known[device].multiprocessors == 0) {
    Machine asked = {};  // kept only once it is whole: who asks again after an error gets no half of one
    error = ask(device, &asked);
    if (error != cudaSuccess) return cudaGetLastError(), error;
    known[device] = asked;
  }
  *machine = known[device];
  return cudaSuccess;
}

cudaError_t allow_shared_memory(const void* kernel, int64_t bytes) {
  constexpr int64_t always_allowed = 40 * 1024;  // 48 KiB, of which a kernel may have some besides
  if (bytes <= always_allowed) return cudaSuccess;
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, int64_t> allowed;
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  const std::lock_guard<std::mutex> guard(mutex);
  int64_t& most = allowed[{kernel, device}];
  if (bytes <= most) return cudaSuccess;
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error == cudaSuccess) most = bytes;
  return error;
}

}  // namespace ksmm
