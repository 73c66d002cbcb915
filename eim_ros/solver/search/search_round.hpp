// One round of the search for solutions of one pose. A round draws seeds, solves from them, keeps new solutions,
// continues along self-motions, and verifies the results.
#pragma once

#include "manifold/manifold.hpp"
#include "numerics/mixture.hpp"

namespace eim {

// expert of solutions from given seeds, from uniform seeds, or from continuation
inline constexpr std::uint32_t kNoExpert = 0xFFFFFFFFu;

struct SearchRound {
    int n_uniform, n_drawn;      // number of uniform seeds within the limits; number of draws from the mixture
    double tempering;            // exponent of the weights of the mixture
    double distinct_tolerance;   // [rad or m]: closer solutions are dropped; negative: all are kept
    bool has_continued;          // whether an earlier round continued along self-motions
    int fewest_roots, n_wanted;  // continuation needs fewest_roots solutions, and ends at n_wanted
    ContinuationOptions spread;
    StepOptions effort;
    double seed;  // number from [0, 1)
};

// Results of a search: verified solutions, and the best attempt if there is no solution so far.
struct Found {
    Rows rows;
    std::vector<std::uint32_t> experts;  // (n,)
    std::vector<double> best;
    double best_error = std::numeric_limits<double>::infinity();  // one unit of the arm counts as 1 rad
    // last round: number of seeds that converged, of rows before continuation, and of seeds far from all known
    // solutions
    int n_converged = 0, n_seeded = 0, n_remote = 0;

    explicit Found(int n_joints) : rows({n_joints}), best(n_joints, 0.0) {}
    int size() const { return static_cast<int>(rows.size()); }

    // Removes the rows from `first` on for which mask (n,) is false.
    void keep(const std::uint8_t* mask, Index first = 0) {
        Index to = first;
        for (Index from = first; from < rows.size(); ++from) {
            if (!mask[from]) continue;
            std::copy_n(rows.row(from), rows.n_joints, rows.row(to));
            rows.distances[to] = rows.distances[from], rows.angles[to] = rows.angles[from];
            rows.converged[to] = rows.converged[from], experts[to] = experts[from];
            ++to;
        }
        rows.resize(to), experts.resize(to);
    }
};

// Wraps continuous joints with narrowed limits into the range from -pi to pi, because the solver would clamp values
// outside of this range.
template <class Positions>
inline Positions within_limits(Positions rows, const Task& task, const bool* continuous) {
    for (int j = 0; j < rows.n_joints; ++j) {
        if (!continuous[j] || task.bounds.wraps[j]) continue;
        for (Index i = 0; i < rows.size(); ++i) rows.row(i)[j] = wrapped_angle(rows.row(i)[j]);
    }
    return rows;
}

// Returns the seeds of a round: given seeds, uniform seeds, and draws from the mixture. Sets `sources` to the expert of
// each seed.
inline Rows seeds_of(const Task& task, const Mixture& mixture, const SearchRound& round, Configurations given,
                     const bool* continuous, std::vector<std::uint32_t>& sources) {
    Rows seeds(std::move(given));
    const Index n_given = seeds.size(), n_first = n_given + round.n_uniform;
    const int n_joints = seeds.n_joints;
    Random random(round.seed);
    seeds.resize(n_first + round.n_drawn), sources.assign(seeds.size(), kNoExpert);
    for (Index i = n_given; i < n_first; ++i) {
        for (int j = 0; j < n_joints; ++j) {
            seeds.row(i)[j] = random.uniform(task.bounds.lower[j], task.bounds.upper[j]);
        }
    }
    if (round.n_drawn > 0) {
        draw(mixture, round.tempering, true, round.n_drawn, random, seeds.row(n_first), &sources[n_first]);
    }
    return within_limits(std::move(seeds), task, continuous);
}

// Returns the index of the row before `end` that is nearest to row i, by the sum of the squared differences of the
// joints.
inline Index nearest(const Task& task, const Configurations& rows, Index i, Index end) {
    Index best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (Index k = 0; k < end; ++k) {
        double sum = 0.0;
        for (int j = 0; j < rows.n_joints; ++j) {
            const double away = difference(rows.row(i)[j], rows.row(k)[j], task.bounds.wraps[j]);
            sum += away * away;
        }
        if (sum < least) least = sum, best = k;
    }
    return best;
}

// Adds solutions from seeds and from continuation. A solution from continuation gets the expert of the nearest solution
// from a seed. Only `verify_rows` decides which solutions are valid.
template <int N>
inline void search_round(const Chain& chain, const Task& task, const Mixture& mixture, const SearchRound& round,
                         Configurations given, const bool* continuous, Found& found) {
    Rows& rows = found.rows;
    const Index n_known = rows.size();
    std::vector<std::uint32_t> sources;
    Rows seeds = seeds_of(task, mixture, round, std::move(given), continuous, sources);
    refine_rows<N>(chain, task, round.effort, seeds);
    Places known(task.bounds, rows.n_joints);
    const bool drops = round.distinct_tolerance >= 0.0, compares = drops || round.has_continued;
    for (Index i = 0; compares && i < n_known; ++i) known.add(rows.row(i));
    found.n_remote = 0, found.n_converged = int(std::count(seeds.converged.begin(), seeds.converged.end(), 1));
    for (Index i = 0; i < seeds.size(); ++i) {
        const double *q = seeds.row(i), error = seeds.distances[i] / chain.unit + seeds.angles[i];
        if (n_known == 0 && error < found.best_error) found.best.assign(q, q + rows.n_joints), found.best_error = error;
        if (!seeds.converged[i] || (drops && known.has_duplicate(q, round.distinct_tolerance))) continue;
        found.n_remote += round.has_continued && !known.has_duplicate(q, 0.5 * round.spread.step);
        rows.add(q), found.experts.push_back(sources[i]);
        if (compares) known.add(q);
    }
    const Index n_seeded = rows.size();
    if (round.fewest_roots <= n_seeded && (found.n_remote > 0 || !round.has_continued)) {
        spread_over<N>(chain, task, round.spread, round.seed, round.n_wanted, rows);
        for (Index i = n_seeded; i < rows.size(); ++i) {
            found.experts.push_back(mixture.n_components() > 0 ? found.experts[nearest(task, rows, i, n_seeded)]
                                                               : kNoExpert);
        }
    }
    rows.resize(rows.size());
    verify_rows<N>(chain, task, rows, n_known);
    const auto is_valid = rows.converged.begin() + n_known;  // earlier rows are valid
    found.n_seeded = int(n_known + std::count(is_valid, rows.converged.begin() + n_seeded, 1));
    const std::vector<std::uint8_t> mask(rows.converged);
    found.keep(mask.data(), n_known);
}

}  // namespace eim
