// The family "planes": its configurations, whose kernels are compiled in a file for each dtype.
#include <cmath>
#include <iterator>

#include "../number.cuh"
#include "planes.h"
#include "planes_family.h"
#include "planes_seconds.cuh"

namespace ksmm::hopper {

#ifdef KSMM_SM90A

namespace {

template <class Tile>
cudaError_t launch_by(const void* stages, const Problem& problem, const Operands& operands, const Machine& machine,
                      cudaStream_t stream) {
  return problem.dtype == Dtype::float16 ? launch_planes<float16, Tile>(problem, operands, stages, machine, stream)
                                         : launch_planes<bfloat16, Tile>(problem, operands, stages, machine, stream);
}

// W comes by its tensor.
template <class Tile>
struct Direct {
  static cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace&,
                            cudaStream_t stream) {
    return launch_by<Tile>(nullptr, problem, operands, machine, stream);
  }
  static constexpr Configuration as(const char* name) {
    return {name, true, planes_takes<Tile, false>, planes_seconds<Tile, false>, launch};
  }
};

// W comes by stages, which are written first.
template <class Tile>
struct Prepared {
  static constexpr char identity = 0;  // whose address says that a weight is prepared for this tile

  static KeptWeight kept(const Problem& problem) { return {&identity, {planes_stages<Tile>(problem).bytes(problem)}}; }
  static cudaError_t prepare(const Problem& problem, Operands* operands, const Workspace& workspace,
                             cudaStream_t stream) {
    if (operands->prepared.owner == &identity) return cudaSuccess;
    const PlanesStages shape = planes_stages<Tile>(problem);
    void* const stages = workspace.allocate(static_cast<size_t>(shape.bytes(problem)), workspace.context);
    operands->prepared = {&identity, {stages}};
    return write_planes_stages(problem, *operands, shape, stages, stream);
  }
  static cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine,
                            const Workspace& workspace, cudaStream_t stream) {
    Operands used = operands;
    const cudaError_t error = prepare(problem, &used, workspace, stream);
    return error == cudaSuccess ? launch_by<Tile>(used.prepared.places[0], problem, used, machine, stream) : error;
  }
  static double saved_seconds(const Problem& problem, const Machine& machine) {
    return planes_stages_seconds<Tile>(problem, machine);
  }
  static constexpr Configuration as(const char* name) {
    return {name, false, planes_takes<Tile, true>, planes_seconds<Tile, true>, launch, prepare, kept, saved_seconds};
  }
};

#define KSMM_DIRECT(name, ...) Direct<PlanesTile<__VA_ARGS__>>::as(name),
#define KSMM_EITHER(name, ...) \
  Direct<PlanesTile<__VA_ARGS__>>::as(name), Prepared<PlanesTile<__VA_ARGS__>>::as(name " prepared"),
#define KSMM_TILE(name, weight, ...) KSMM_##weight(name, __VA_ARGS__)
constexpr Configuration family[] = {KSMM_PLANES_TILES};
#undef KSMM_DIRECT
#undef KSMM_EITHER
#undef KSMM_TILE

}  // namespace

Configurations planes_configurations() { return {family, static_cast<int>(std::size(family))}; }

#else

Configurations planes_configurations() { return {nullptr, 0}; }

#endif

}  // namespace ksmm::hopper
