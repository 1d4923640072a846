// How overlapped passes are cut into parts, and the ways to multiply one, by the cost model. Host code.
#pragma once

#include <algorithm>

#include "exchange_family.h"
#include "three_passes.cuh"

namespace ksmm::hopper {

constexpr int64_t multiple_of_rows = 256;  // whole tiles
constexpr int64_t parts_of_workspace = 3;  // a part takes a third of most_bytes_between_passes

// How many rows of the batch are taken at a time, and by how many multiprocessors they are multiplied while the others
// transpose. The first part has fewer rows than the others where that pays, and so has the last one, since the first X
// and the last Y are transposed with nothing beside them.
struct Plan {
  int64_t edge, rows;
  int multiplying;
  double seconds;

  int64_t parts(int64_t batch) const { return 1 + parts_of(batch - edge, rows); }
  int64_t first_row(int64_t part, int64_t batch) const {
    return part == 0 ? 0 : std::min(batch, edge + (part - 1) * rows);
  }
  int64_t rows_of(int64_t part, int64_t batch) const { return first_row(part + 1, batch) - first_row(part, batch); }
};

// What is left for the products.
inline Machine part_of(const Machine& machine, int multiprocessors) {
  Machine part = machine;
  const double share = static_cast<double>(multiprocessors) / machine.multiprocessors;
  part.multiprocessors = multiprocessors, part.is_part = true;
  part.pairs = std::min(machine.pairs, multiprocessors / 2);
  part.cache_rate *= share, part.matrix_rate *= share, part.float_rate *= share;
  return part;
}

// X and Y transposed, and products of one of these families in between.
template <Family FAMILY>
struct ThreePasses {
  static constexpr bool transposes_y = true;
  static constexpr double start = 16e-6;  // seconds that a part more costs
  static int64_t features(const Problem& problem) { return problem.a * problem.d * (problem.b + problem.c); }
  static Passes describe(const Problem& problem, const Operands& operands, int64_t rows, void* x, void* y) {
    return describe_passes(problem, operands, rows, x, y);
  }
  static Configurations products(const Problem& problem) { return FAMILY(problem); }
  static bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
    return takes_in_parts<FAMILY>(problem, operands, machine, multiple_of_rows);
  }
  static constexpr int step = 4;  // of multiprocessors
  static int most(const Machine& machine) { return machine.multiprocessors - step; }
  static int fewest(const Machine& machine) { return 2 * machine.multiprocessors / 3; }
  static Machine part(const Machine& machine, int multiprocessors) { return part_of(machine, multiprocessors); }
  static bool arranges_bias(const Problem& problem) { return hopper::arranges_bias(problem); }
};

// X transposed, and products in clusters that leave Y as it is to be.
struct TwoPasses {
  static constexpr bool transposes_y = false;
  static constexpr double start = 40e-6;
  static int64_t features(const Problem& problem) { return problem.a * problem.d * problem.c; }
  static Passes describe(const Problem& problem, const Operands& operands, int64_t rows, void* x, void*) {
    return describe_two_passes(problem, operands, rows, x);
  }
  static Configurations products(const Problem&) { return exchange_products(); }
  static bool takes(const Problem& problem, const Operands& operands, const Machine& machine) {
    if (!suits_two_passes(problem, operands)) return false;
    const Passes passes = describe(problem, operands, multiple_of_rows, nullptr, nullptr);
    return choose_product(exchange_products(), passes, machine) != nullptr;
  }
  static constexpr int step = 8;
  static int most(const Machine& machine) { return step * machine.octets; }
  static int fewest(const Machine& machine) { return most(machine); }  // what they leave idle is enough
  // The cost model of these products has the cache's rate shared by all clusters, not by all multiprocessors.
  static Machine part(const Machine& machine, int multiprocessors) {
    Machine part = part_of(machine, multiprocessors);
    part.octets = multiprocessors / step;
    part.cache_rate = machine.cache_rate * part.octets / machine.octets;
    return part;
  }
  static bool arranges_bias(const Problem&) { return false; }
};

// So many products of as many rows.
struct ProductsOfParts {
  int64_t count;
  Problem problem;
  const Configuration* configuration;
};

// While a part is multiplied, others are transposed, at no more than 1.8 times the share of the memory's rate of these
// multiprocessors, and after that by all of them. The first X and the last Y have nothing beside them. Where memory
// rules it moves what is transposed and what is multiplied, at 0.85 of its rate. A part more costs a start. Fitted to
// 50 problems on an H200, where more than five parts were never the fastest by much.
template <class Way>
double seconds_of(const Problem& problem, const ProductsOfParts (&products)[3], const Machine& machine,
                  const Plan& plan) {
  const Machine multiplying = Way::part(machine, plan.multiplying);
  double multiplied = 0;
  for (const ProductsOfParts& each : products)
    multiplied += static_cast<double>(each.count) * each.configuration->seconds(each.problem, multiplying);
  const double rate = transposition_rate(problem, machine);
  const double of_x = transposed_bytes(problem, problem.c), of_y = transposed_bytes(problem, problem.b);
  const double all = transposed_bytes(problem, Way::features(problem) / (problem.a * problem.d));
  const auto share_of_batch = [&](const ProductsOfParts& of) {
    return static_cast<double>(of.problem.batch) / static_cast<double>(problem.batch);
  };
  const double alone = of_x * share_of_batch(products[0]) + (all - of_x) * share_of_batch(products[2]);
  const double aside = 1.0 - static_cast<double>(plan.multiplying) / machine.multiprocessors;
  const double left = std::max(0.0, all - alone - multiplied * 1.8 * aside * machine.memory_rate);
  const double memory = (all - alone + 0.5 * (of_x + of_y)) / (0.85 * machine.memory_rate);
  return alone / rate + std::max(multiplied + left / rate, memory) +
         static_cast<double>(plan.parts(problem.batch)) * Way::start;
}

template <class Way>
Plan plan_for(const Problem& problem, const Operands& operands, const Machine& machine) {
  Plan best = {0, 0, 0, 1e9};
  const int64_t batch = problem.batch, most = rows_of_part(problem, parts_of_workspace * Way::features(problem));
  const auto whole = [](int64_t rows, int64_t by) {
    return parts_of(parts_of(rows, by), multiple_of_rows) * multiple_of_rows;
  };
  const Passes tiles = Way::describe(problem, operands, multiple_of_rows, nullptr, nullptr);
  const auto takers = takers_of(tiles, Way::products(tiles.product), machine);
  if (takers.empty()) return best;
  for (int64_t parts = std::max<int64_t>(2, parts_of(batch, most)), last = parts + 4; parts < last; ++parts)
    for (int64_t of_edge = 1; of_edge <= (parts == 2 ? 1 : 3); ++of_edge) {  // of the others' rows, one in so many
      Plan plan = {0, whole(of_edge * batch, (parts - 2) * of_edge + 2), 0, 0};
      plan.edge = whole(plan.rows, of_edge);
      if (plan.edge >= batch || plan.rows > most) continue;
      const int64_t count = plan.parts(batch);
      const auto of = [&](int64_t times, int64_t part) {
        Problem product = tiles.product;
        product.batch = plan.rows_of(part, batch);
        return ProductsOfParts{times, product, fastest_of(takers, product, machine)};
      };
      const ProductsOfParts products[3] = {of(1, 0), of(count - 2, 1), of(1, count - 1)};
      for (int some = Way::most(machine); some >= Way::fewest(machine); some -= Way::step) {
        plan.multiplying = some;
        plan.seconds = seconds_of<Way>(problem, products, machine, plan);
        if (plan.seconds < best.seconds) best = plan;
      }
    }
  return best;
}

}  // namespace ksmm::hopper
