// A round of the search for solutions of one pose: draw, refine, keep what is new, walk, verify.
#pragma once

#include "manifold.hpp"
#include "mixture.hpp"

namespace eim {

inline constexpr std::uint32_t kNoExpert = 0xFFFFFFFFu;  // of what came from a given or uniform seed, or from a walk

struct Round {
    int n_uniform, n_drawn;      // seeds uniform within the limits, and drawn from the mixture
    double tempering;            // power of the mixture's weights
    bool stratified;             // whether draws are spread evenly over the weights
    double distinct_tolerance;   // [rad or m]: near-duplicates within it are left out; negative: none are
    bool has_walked;             // whether walks were made in an earlier round
    int fewest_roots, n_wanted;  // from so many solutions on walks follow, until there are n_wanted
    Spread spread;
    Effort effort;
    double seed;  // in [0, 1)
};

// What a search has found: verified solutions, and while there is none the best attempt.
struct Found {
    int n_joints;
    std::vector<double> positions, position_error, orientation_error;  // (n, n_joints), (n,) [m], (n,) [rad]
    std::vector<std::uint32_t> experts;
    std::vector<double> best;
    double best_error = std::numeric_limits<double>::infinity();  // 1 m counted as 1 rad
    int n_seeded = 0, n_remote = 0;  // of the last round: rows without those of walks; seeds far from all known

    explicit Found(int n_joints) : n_joints(n_joints), best(n_joints, 0.0) {}
    int size() const { return static_cast<int>(experts.size()); }
    void resize(std::size_t n) {
        positions.resize(n * n_joints), position_error.resize(n), orientation_error.resize(n), experts.resize(n);
    }
    void move_row(int from, int to) {
        std::copy_n(positions.data() + std::ptrdiff_t(from) * n_joints, n_joints,
                    positions.data() + std::ptrdiff_t(to) * n_joints);
        position_error[to] = position_error[from], orientation_error[to] = orientation_error[from];
        experts[to] = experts[from];
    }
};

// Seeds of a round (n, n_joints): given ones, uniform ones and draws, of which `components` tells where from.
inline std::vector<double> seeds_of(const Task& task, const Mixture& mixture, const Round& round, const double* given,
                                    int n_given, const bool* turns, int n_joints, std::int64_t* components) {
    const int n_first = n_given + round.n_uniform, n = n_first + round.n_drawn;
    std::vector<double> seeds(std::size_t(n) * n_joints);
    Random random(round.seed);
    std::copy_n(given, std::size_t(n_given) * n_joints, seeds.data());
    for (int i = n_given; i < n_first; ++i) {
        for (int j = 0; j < n_joints; ++j) {
            seeds[std::size_t(i) * n_joints + j] = random.uniform(task.bounds.lower[j], task.bounds.upper[j]);
        }
    }
    double* drawn = seeds.data() + std::size_t(n_first) * n_joints;
    if (round.n_drawn > 0) draw(mixture, round.tempering, round.stratified, round.n_drawn, random, drawn, components);
    for (int j = 0; j < n_joints; ++j) {  // a narrowed joint that turns endlessly does not wrap by itself
        if (!turns[j] || task.bounds.wraps[j]) continue;
        for (int i = 0; i < n; ++i) {
            double& value = seeds[std::size_t(i) * n_joints + j];
            value = wrapped(value, kTwoPi, 1.0 / kTwoPi);
        }
    }
    return seeds;
}

// Appends to what was found what refined seeds and walks from them reach; `verify_rows` alone decides what is kept.
template <int N>
inline void search_round(const Chain& chain, const Task& task, const Mixture& mixture, const Round& round,
                         const double* given, int n_given, const bool* turns, Found& found) {
    const int n_joints = found.n_joints, n_known = found.size(), n_first = n_given + round.n_uniform;
    std::vector<std::int64_t> components(round.n_drawn);
    std::vector<double> seeds = seeds_of(task, mixture, round, given, n_given, turns, n_joints, components.data());
    const int n_seeds = n_first + round.n_drawn;
    Results results(n_seeds);
    const Rows attempts = results.rows(seeds.data(), n_joints);
    refine_rows<N>(chain, task, round.effort, attempts);
    const bool walks = round.n_wanted > n_known;
    found.resize(std::max(n_known + n_seeds, walks ? round.n_wanted : 0));
    Points points{found.positions.data(), n_known, found.size(), n_joints};
    Places known(task.bounds, n_joints);
    const bool compares = round.distinct_tolerance >= 0.0 || round.has_walked;
    for (int i = 0; compares && i < n_known; ++i) known.add(points.row(i));
    found.n_remote = 0;
    for (int i = 0; i < n_seeds; ++i) {
        const double *seed = attempts.row(i), error = attempts.position_error[i] + attempts.orientation_error[i];
        if (n_known == 0 && error < found.best_error) {
            std::copy_n(seed, n_joints, found.best.data());
            found.best_error = error;
        }
        if (!attempts.converged[i]) continue;
        if (round.distinct_tolerance >= 0.0 && known.has_duplicate(seed, round.distinct_tolerance)) continue;
        found.n_remote += round.has_walked && !known.has_duplicate(seed, 0.5 * round.spread.step);
        found.experts[points.n] = i < n_first ? kNoExpert : std::uint32_t(components[i - n_first] % mixture.n_reported);
        points.add(seed);
        if (compares) known.add(seed);
    }
    const int n_seeded = points.n;
    if (round.fewest_roots <= n_seeded && n_seeded < round.n_wanted && (found.n_remote > 0 || !round.has_walked)) {
        points.capacity = round.n_wanted;
        spread_over<N>(chain, task, round.spread, round.seed, points);
        std::fill(found.experts.begin() + n_seeded, found.experts.begin() + points.n, kNoExpert);
    }
    std::vector<std::uint8_t> valid(points.n - n_known);
    std::vector<std::int64_t> none(points.n - n_known);
    verify_rows<N>(chain, task,
                   {points.row(n_known), points.n - n_known, n_joints, reinterpret_cast<bool*>(valid.data()),
                    none.data(), found.position_error.data() + n_known, found.orientation_error.data() + n_known});
    int n_kept = n_known;
    found.n_seeded = n_known;
    for (int i = n_known; i < points.n; ++i) {
        if (!valid[i - n_known]) continue;
        found.move_row(i, n_kept++);
        found.n_seeded += i < n_seeded;
    }
    found.resize(n_kept);
}

}  // namespace eim
