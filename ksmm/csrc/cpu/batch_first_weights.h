// batch_first: the weights of a panel (N vectors of one group) in the order in which the multiplication reads them.
//
// Where a vector's weights are consecutive in memory they are copied as vectors; the order in which
// csrc/gradients.cpp stores weights makes that the rule. Any other strides cost one load an element.
#pragma once

#include "batch_first_plan.h"
#include "work.h"

namespace ksmm {
namespace KSMM_VARIANT {

// Where the weights of a panel's first vector are for the first k, if the panel is to be read from there, and how far
// apart its vectors are; null if it is to be packed: what is read for a few rows alone costs more to pack than to read,
// and float32 of whole vectors needs no packing.
struct StoredPanel {
  const float* at;
  int64_t vector_step;
};

// Whether vectors of outputs lie in one piece for each k, but for those at the end.
inline bool weights_are_in_vectors(const Problem& problem, const Operands& operands) {
  const int64_t* strides = operands.weight_strides;
  return (problem.d == 1 || strides[3] == 1) && (strides[1] == problem.d || problem.d % lanes == 0);
}

template <class Element>
StoredPanel stored_panel(const FirstPlan& plan, const Operands& operands, int64_t set, int64_t panel) {
  const int64_t* strides = operands.weight_strides;
  const int64_t d = plan.problem.d, output = plan.first_output(set, panel);
  const int64_t end = output + (plan.width - 1) * plan.group_step + lanes;
  const bool in_a_row = strides[1] == d;
  if (!std::is_same<Element, Float32>::value || !plan.reads_stored() || end > plan.outputs() ||
      !weights_are_in_vectors(plan.problem, operands))
    return {nullptr, 0};
  const float* from = static_cast<const float*>(operands.weight) + plan.set_i(set) * strides[0];
  return {from + output / d * strides[1] + output % d, in_a_row ? plan.group_step : strides[1]};
}

// Weights of one panel: packed[((set·set_panels + panel)·steps + k)·N·L + v·L + lane], zeros past the last output.
template <class Element>
struct FirstWeights {
  using Stored = typename Element::Stored;
  const FirstPlan& plan;
  const Operands& operands;
  float* packed = nullptr;

  // Whether there is anything to pack: for one i as for all.
  bool any() const {
    for (int64_t set = 0; set < (plan.shared ? 1 : plan.used_groups); ++set)
      for (int64_t panel = 0; panel < plan.set_panels; ++panel)
        if (!stored_panel<Element>(plan, operands, set, panel).at) return true;
    return false;
  }

  void work(Tasks& tasks) const {
    for (int64_t first, last; tasks.take(first, last);) {
      for (int64_t task = first; task < last; ++task) pack(task);
    }
  }

  void pack(int64_t task) const {
    const int64_t set = task / plan.set_panels, panel = task % plan.set_panels;
    if (stored_panel<Element>(plan, operands, set, panel).at) return;
    const Stored* from = static_cast<const Stored*>(operands.weight) + plan.set_i(set) * operands.weight_strides[0];
    const int64_t output = plan.first_output(set, panel);
    float* to = packed + task * plan.panel_floats();
    const Stored* firsts[widest_tile];
    bool consecutive = true;
    for (int v = 0; v < plan.width; ++v) {
      firsts[v] = consecutive_from(from, output + v * plan.group_step);
      consecutive = consecutive && firsts[v];
    }
    if (consecutive) return pack_consecutive(firsts, to);
    for (int v = 0; v < plan.width; ++v) pack_vector(from, output + v * plan.group_step, to + v * lanes);
  }

  // The weights of a vector for the first k, where those for each k are consecutive in memory; else null.
  const Stored* consecutive_from(const Stored* from, int64_t output) const {
    const int64_t* strides = operands.weight_strides;
    const int64_t d = plan.problem.d, r = output / d, j = output % d;
    const bool one_row = j + lanes <= d;
    if (output + lanes > plan.outputs() || strides[3] != 1 || !(one_row || strides[1] == d)) return nullptr;
    return from + r * strides[1] + j;
  }

  // k by k, as they are stored: each k may lie in another page, and no machine sees ahead so far.
  void pack_consecutive(const Stored* const (&firsts)[widest_tile], float* to) const {
    const int64_t k_step = Element::word_k * operands.weight_strides[2];
    for (int64_t k = 0; k < plan.steps; ++k) {
      for (int v = 0; v < plan.width; ++v, to += lanes) {
        const Stored* first = firsts[v] + k * k_step;
        prefetch(first, 16 * k_step);
        store(to, load_words<Element>(first, next_k(first, k)));
      }
    }
  }

  // The element of the k after that of word `step`, null beyond c.
  const Stored* next_k(const Stored* element, int64_t step) const {
    return step * Element::word_k + 1 < plan.problem.c ? element + operands.weight_strides[2] : nullptr;
  }

  void pack_vector(const Stored* from, int64_t output, float* to) const {
    const Problem& p = plan.problem;
    const int64_t* strides = operands.weight_strides;
    const int64_t step = plan.width * lanes;
    const int64_t count = larger(0, smaller(lanes, plan.outputs() - output));
    int64_t offsets[lanes] = {};
    for (int64_t lane = 0; lane < count; ++lane) {
      offsets[lane] = (output + lane) / p.d * strides[1] + (output + lane) % p.d * strides[3];
    }
    for (int64_t first = 0; first < plan.steps; first += 16) {  // a cache line of 16 k is read at once
      const int64_t last = smaller(first + 16, plan.steps);
      for (int64_t lane = 0; lane < lanes; ++lane) {
        for (int64_t k = first; k < last; ++k) {
          const Stored* element = from + offsets[lane] + k * Element::word_k * strides[2];
          to[k * step + lane] = lane < count ? read_word<Element>(element, next_k(element, k)) : 0.0f;
        }
      }
    }
  }
};

}  // namespace KSMM_VARIANT
}  // namespace ksmm
