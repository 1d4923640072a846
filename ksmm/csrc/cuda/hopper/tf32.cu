// All configurations of the TF32 family; none unless compute capability 9.0 is compiled for.
#include <initializer_list>
#include <vector>

#include "tf32.cuh"

namespace ksmm {

#ifdef KSMM_SM90A

namespace {

std::vector<Configuration> joined(std::initializer_list<Configurations> parts) {
  std::vector<Configuration> list;
  for (const Configurations part : parts) list.insert(list.end(), part.data, part.data + part.count);
  return list;
}

}  // namespace

Configurations tf32_configurations() {
  static const std::vector<Configuration> all = joined(
      {hopper::tf32_batch_last(), hopper::tf32_batch_first_runs(), hopper::tf32_batch_first_sectors(),
       hopper::halves_batch_last(), hopper::halves_batch_first(), hopper::tf32_shifted(), hopper::halves_shifted()});
  return {all.data(), static_cast<int>(all.size())};
}

#else

Configurations tf32_configurations() { return {nullptr, 0}; }

#endif

}  // namespace ksmm
