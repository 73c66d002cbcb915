// What an arm can do at a pose: how many families of solutions are found, how far they reach, how far from singular.
//
// Uniform seeds are refined and the self-motions through what they lead to are traced by continuation. A family is what
// steps within the limits connect. Where a branch ends beside a place of another, both run along the same curve if the
// chord between them follows both tangents.
#pragma once

#include <numeric>

#include "chunks.hpp"
#include "gaps.hpp"

namespace eim {

inline constexpr Index kChartChunk = 64;
inline constexpr double kJoint = 1.7;    // steps: farthest that the ends of branches of one curve lie apart
inline constexpr double kAligned = 0.8;  // cosine between their chord and the tangents, at least
inline constexpr int kMostPlaces = 1000;

struct Chart {
    double n_solutions = 0.0;  // verified, a spacing from each other
    double n_families = 0.0;
    double length = 0.0;          // of self-motions within the limits [rad, m]
    double manipulability = 0.0;  // largest product of singular values of the Jacobian met
};

// Which numbers belong together: union and find, with halved paths (Tarjan and van Leeuwen 1984).
class DisjointSets {
   public:
    explicit DisjointSets(int n) : parents_(n) { std::iota(parents_.begin(), parents_.end(), 0); }
    int of(int i) {
        while (parents_[i] != i) i = parents_[i] = parents_[parents_[i]];
        return i;
    }
    bool join(int a, int b) {
        a = of(a), b = of(b);
        parents_[a] = b;
        return a != b;
    }

   private:
    std::vector<int> parents_;
};

// Joins the places of a trace to families.
class FamilyGraph {
   public:
    FamilyGraph(const Bounds<double>& bounds, Trace& trace, double step)
        : bounds_(bounds), trace_(trace), step_(step), n_joints_(trace.places.n_joints), sets_(trace.size()) {
        const int n = trace.size();
        is_taken_.assign(2 * n, 0), is_within_.resize(n);
        for (int i = 0; i < n; ++i) is_within_[i] = is_inside(bounds, trace.place(i), n_joints_);
        for (int i = 0; i < n; ++i) {
            const int parent = trace.parents[i];
            if (parent != Trace::kNone) link(i, parent);
        }
        for (int i = 0; i < 2 * n; ++i) close(i / 2, i % 2);
    }

    double length() const { return length_; }

    // Makes the chords that were closed steps of the trace, each to a copy of the place where it ends.
    void add_closings() {
        for (const auto& [from, to] : closings_) {
            const std::vector<double> place(trace_.place(to), trace_.place(to) + n_joints_);
            const double sign = side(to, from) ? -1.0 : 1.0;  // its tangent leads on from there
            trace_.add(place.data(), from, false);
            for (int j = 0; j < n_joints_; ++j) trace_.tangent(trace_.size() - 1)[j] = sign * trace_.tangent(to)[j];
        }
    }

    int family(int place) { return sets_.of(place); }
    bool is_within(int place) const { return is_within_[place]; }

   private:
    void link(int i, int k) {
        is_taken_[2 * i + side(i, k)] = is_taken_[2 * k + side(k, i)] = 1;
        const double chord = chord_of(i, k), length = chord * (1.0 + turn(i, k) / 24.0);
        if (is_within_[i] && is_within_[k]) sets_.join(i, k), length_ += length;
        if (is_within_[i] != is_within_[k])
            length_ += length * share_within(is_within_[i] ? i : k, is_within_[i] ? k : i);
    }

    // On which side of a place, ahead along its tangent or behind, another one lies.
    int side(int at, int other) {
        double product = 0.0;
        for (int j = 0; j < n_joints_; ++j) {
            const double d = away(at, other, j);
            product += d * trace_.tangent(at)[j];
        }
        return product >= 0.0;
    }

    // Looks for the place where another branch of the same curve ended or began, on a side of a place to which nothing
    // is linked.
    void close(int i, int ahead) {
        if (is_taken_[2 * i + ahead] || !has_tangent(i)) return;
        int best = Trace::kNone;
        double least = kJoint * step_;
        for (int k = 0; k < trace_.size(); ++k) {
            if (k == i || !has_tangent(k)) continue;
            const double chord = chord_of(i, k);
            if (chord >= least || side(i, k) != ahead || is_taken_[2 * k + side(k, i)]) continue;
            if (alignment(i, i, k) >= kAligned && alignment(k, i, k) >= kAligned) least = chord, best = k;
        }
        if (best != Trace::kNone) link(i, best), closings_.push_back({i, best});
    }

    bool has_tangent(int i) { return trace_.tangent(i)[0] != std::numeric_limits<double>::infinity(); }

    double chord_of(int i, int k) const {
        double square = 0.0;
        for (int j = 0; j < n_joints_; ++j) {
            const double d = away(k, i, j);
            square += d * d;
        }
        return std::sqrt(square);
    }

    // Way of joint j from one place to another; what is farther than half a turn was taken back in by a whole one.
    double away(int from, int to, int j) const {
        const double d = trace_.place(to)[j] - trace_.place(from)[j];
        return std::abs(d) > kPi ? wrapped(d, kTwoPi, 1.0 / kTwoPi) : d;
    }

    // |cosine| between the tangent at a place, as long as a step, and the chord from i to k.
    double alignment(int at, int i, int k) {
        double product = 0.0;
        for (int j = 0; j < n_joints_; ++j) {
            const double d = away(i, k, j);
            product += d * trace_.tangent(at)[j];
        }
        return std::abs(product) / std::max(step_ * chord_of(i, k), 1e-300);
    }

    // Squared turn of the tangent from i to k, up to its sign.
    double turn(int i, int k) {
        if (!has_tangent(i) || !has_tangent(k)) return 0.0;
        double product = 0.0;
        for (int j = 0; j < n_joints_; ++j) product += trace_.tangent(i)[j] * trace_.tangent(k)[j];
        return 2.0 - 2.0 * std::min(std::abs(product) / (step_ * step_), 1.0);
    }

    // Share of the chord from a place inside the limits to one outside that is inside.
    double share_within(int inside, int outside) const {
        double share = 1.0;
        for (int j = 0; j < n_joints_; ++j) {
            const double from = trace_.place(inside)[j], to = from + away(inside, outside, j);
            if (to > bounds_.upper[j]) share = std::min(share, (bounds_.upper[j] - from) / (to - from));
            if (to < bounds_.lower[j]) share = std::min(share, (from - bounds_.lower[j]) / (from - to));
        }
        return std::clamp(share, 0.0, 1.0);
    }

    const Bounds<double>& bounds_;
    Trace& trace_;
    double step_, length_ = 0.0;
    int n_joints_;
    DisjointSets sets_;
    std::vector<std::pair<int, int>> closings_;
    std::vector<std::uint8_t> is_within_, is_taken_;  // taken: (n, 2), whether something is linked behind, ahead
};

// Adds solutions to points, which are some of the task, until all of the curves through them are held: successive ones
// differ by about `finest` in some joint, wherever branches met, too. At most `most` in all.
template <int N>
inline void fill_curves(const Chain& chain, const Task& task, const Spread& spread, double seed, Index most,
                        Configurations& points) {
    const Index n_roots = points.size();
    if (n_roots == 0 || n_roots >= most) return;
    Trace trace = Continuation<N>(chain, task, spread, seed).run(points, int(most - n_roots));
    FamilyGraph(task.bounds, trace, spread.step).add_closings();
    Configurations seeds = between(task.bounds, trace, spread.finest, int(most));
    for (int i = int(n_roots); i < trace.size(); ++i) {
        if (trace.is_new[i]) seeds.add(trace.place(i));
    }
    Rows near(std::move(seeds));
    run_rows<N>(chain, task, {task.position_tolerance, task.orientation_tolerance, 3, 3}, RowJobs::all(near));
    verify_rows<N>(chain, task, near);
    Places known(task.bounds, points.n_joints);
    for (Index i = 0; i < n_roots; ++i) known.add(points.row(i));
    for (Index i = 0; i < near.size() && points.size() < most; ++i) {
        if (!near.converged[i] || known.has_duplicate(near.row(i), 0.5 * spread.finest)) continue;
        points.add(near.row(i)), known.add(near.row(i));
    }
}

template <int N>
inline double best_manipulability(const Chain& chain, const Task& task, const Configurations& solutions) {
    WideDouble best{};
    for_packs<N>(chain, solutions.positions.data(), solutions.size(), [&](auto& at, Index, int) {
        differentiate<N>(chain, at);
        const Damped<WideDouble> factor = factorised<N>(chain, at.jacobian, task.position_only, WideDouble{});
        WideDouble product = fill<WideDouble>(1.0);
        for (int k = 0; k < factor.n; ++k) product *= 1.0 / factor.lower[k][k];  // sqrt det(J J^T)
        best = larger(best, product);
    });
    double most = 0.0;
    for (int lane = 0; lane < kLanes<WideDouble>; ++lane) most = std::max(most, get(best, lane));
    return most;
}

// Charts the solutions of a task from uniform seeds.
template <int N>
inline Chart chart(const Chain& chain, const Task& task, const Effort& effort, const Spread& spread, int n_seeds,
                   Random random) {
    Chart result;
    Rows seeds({chain.n_joints});
    seeds.resize(n_seeds);
    for (int i = 0; i < n_seeds; ++i) {
        for (int j = 0; j < chain.n_joints; ++j) {
            seeds.row(i)[j] = random.uniform(task.bounds.lower[j], task.bounds.upper[j]);
        }
    }
    refine_rows<N>(chain, task, effort, seeds);
    Configurations solutions{chain.n_joints};
    Places known(task.bounds, chain.n_joints);
    const double radius = spread.redundancy > 0 ? kSpacing * spread.step : spread.finest;
    for (int i = 0; i < n_seeds; ++i) {
        if (!seeds.converged[i] || known.has_near(seeds.row(i), radius)) continue;
        known.add(seeds.row(i)), solutions.add(seeds.row(i));
    }
    if (solutions.size() == 0) return result;
    std::vector<int> families(solutions.size());
    std::iota(families.begin(), families.end(), 0);
    if (spread.redundancy == 1) {
        Trace trace = Continuation<N>(chain, task, spread, random.uniform()).run(solutions, kMostPlaces);
        FamilyGraph graph(task.bounds, trace, spread.step);
        result.length = graph.length();
        solutions.positions.clear(), families.clear();
        for (int i = 0; i < trace.size(); ++i) {
            if (graph.is_within(i)) solutions.add(trace.place(i)), families.push_back(graph.family(i));
        }
    }
    Rows rows(std::move(solutions));
    run_rows<N>(chain, task, {task.position_tolerance, task.orientation_tolerance, 3, 3}, RowJobs::all(rows));
    verify_rows<N>(chain, task, rows);
    Configurations valid{chain.n_joints};
    std::vector<int> met;
    for (Index i = 0; i < rows.size(); ++i) {
        if (rows.converged[i]) valid.add(rows.row(i)), met.push_back(families[i]);
    }
    std::sort(met.begin(), met.end());
    result.n_solutions = double(valid.size());
    result.n_families = double(std::unique(met.begin(), met.end()) - met.begin());
    if (valid.size() > 0) result.manipulability = best_manipulability<N>(chain, task, valid);
    return result;
}

// Charts of poses (n, 4, 4), on several threads; each has a number for its seeds.
template <int N>
inline void chart_poses(const Chain& chain, const Task& task, const Effort& effort, const Spread& spread, int n_seeds,
                        const double* targets, const std::uint64_t* numbers, Index n, int n_threads, Chart* charts) {
    for_chunks(n, kChartChunk, n_threads, [&](Index, Index first, Index last) {
        Task own = task;
        for (Index i = first; i < last; ++i) {
            std::copy_n(targets + 16 * i, 12, &own.target[0][0]);
            Random random(0.0);
            random.state = numbers[i] * 0xD1342543DE82EF95u + 0x2545F4914F6CDD1Du;
            random.uniform();
            charts[i] = chart<N>(chain, own, effort, spread, n_seeds, random);
        }
    });
}

}  // namespace eim
