// What a thread multiplies one after the other: of each task that it takes some k at a time, a stage, from a copy of X
// that is made while the stage before is multiplied.
#pragma once

#include <utility>

#include "work.h"

namespace ksmm {
namespace KSMM_VARIANT {

// The stages of the tasks that a thread takes. A stage begins at word k along c and has `depth` of them; a plan has all
// `steps`, how many a stage has at most, and the first stage of a task, as yet without depth.
template <class Plan>
class Stages {
 public:
  using Stage = typename Plan::Stage;

  Stages(const Plan& plan, Tasks& tasks) : plan_(plan), tasks_(tasks) { stage_.k = plan.steps; }

  // False when none is left.
  bool next(Stage& stage) {
    stage_.k += stage_.depth;
    if (stage_.k >= plan_.steps && !next_task()) return false;
    stage_.depth = smaller(plan_.depth, plan_.steps - stage_.k);
    stage = stage_;
    return true;
  }

 private:
  bool next_task() {
    if (++task_ >= last_task_ && !tasks_.take(task_, last_task_)) return false;
    stage_ = plan_.first_stage(task_);
    return true;
  }

  const Plan& plan_;
  Tasks& tasks_;
  Stage stage_{};
  int64_t task_ = 0, last_task_ = 0;
};

// How much of a copy is made at a time while tiles are multiplied. A copy derives from it, and counts its pieces
// in left_.
class Portions {
 public:
  // Over so many tiles of `rows` rows, each `depth` words deep.
  void spread_over(int64_t tiles, int64_t depth, int64_t rows) {
    interval_ = smaller(tiles * depth / larger(1, left_), depth / rows);
    interval_ = larger(4, smaller(16, interval_));
    portion_ = divide_up(left_, tiles * divide_up(depth, interval_));
  }

  // The words of a tile between two portions.
  KSMM_INLINE int64_t interval() const { return interval_; }

 protected:
  // How many pieces to copy now.
  KSMM_INLINE int64_t take() {
    const int64_t count = smaller(portion_, left_);
    left_ -= count;
    return count;
  }

  int64_t left_ = 0;  // pieces

 private:
  int64_t portion_ = 0, interval_ = 8;
};

// Calls multiply(stage, copied, copy) for each; it has copy() called now and then, which copies some of the next one.
//   start(stage, to)   a Copy of the stage's X, not yet begun
template <class Copy, class Plan, class Start, class Multiply>
void multiply_stages(const Plan& plan, Tasks& tasks, float* copied, float* to, const Start& start,
                     const Multiply& multiply) {
  Stages<Plan> stages(plan, tasks);
  typename Plan::Stage stage{}, next{};
  if (!stages.next(stage)) return;
  start(stage, copied).finish();
  for (bool more = true; more;) {
    Copy copy;
    more = stages.next(next);
    if (more) copy = start(next, to);
    copy.spread_over(stage);
    multiply(stage, copied, copy);
    copy.finish();
    std::swap(copied, to);
    stage = next;
  }
}

}  // namespace KSMM_VARIANT
}  // namespace ksmm
