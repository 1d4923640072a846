// All configurations of the TF32 family; none unless compute capability 9.0 is compiled for.
#include <vector>

#include "tf32.cuh"

namespace ksmm {

Configurations tf32_configurations() {
  static const std::vector<Configuration> all = [] {
    std::vector<Configuration> list;
#ifdef KSMM_SM90A
    for (const Configurations part :
         {hopper::tf32_batch_last(), hopper::tf32_batch_first_runs(), hopper::tf32_batch_first_sectors(),
          hopper::halves_batch_last(), hopper::halves_batch_first()})
      list.insert(list.end(), part.data, part.data + part.count);
#endif
    return list;
  }();
  return {all.data(), static_cast<int>(all.size())};
}

}  // namespace ksmm
