// All solutions of a pose for an arm with a closed form. Roots are polished, duplicates are removed, and revolutions
// within the limits are added.
#pragma once

#include "closed_form/closed_form.hpp"
#include "closed_form/revolutions.hpp"
#include "general_6r/general_6r.hpp"
#include "numerics/clock.hpp"
#include "numerics/random.hpp"

namespace eim {

// number of random configurations, and how many of them a closed form must reproduce
inline constexpr int kTried = 16, kFound = 14;
// bound of the change of roots by polishing, as a multiple of the deviation of the form from the arm
inline constexpr double kMostMoved = 50.0;
inline constexpr double kGivenBack = 1e-4;  // [rad]: largest error of a reproduced configuration

// Roots with each joint in [-pi, pi]. A flag is true only if the computation found evidence for it.
struct Roots : Configurations {
    Index n_isolated = 0;       // isolated roots come first; the others belong to sweeps or to a continuum
    bool is_singular = false;   // whether some roots belong to a continuum
    bool is_complete = false;   // whether no root is missing, except members of sweeps
    bool is_certified = false;  // whether completeness does not rely on a measured noise level
    bool is_swept = false;      // whether sweeps contain all roots of a continuum
};

inline Motion motion_of(const Frame<double>& frame) {
    double rows[3][4];
    for (int k = 0; k < 3; ++k) {
        rows[k][0] = frame.x[k], rows[k][1] = frame.y[k], rows[k][2] = frame.z[k], rows[k][3] = frame.origin[k];
    }
    return motion_of(rows);
}

// Six joints with a closed form: all joints of a chain, or six of seven while one joint is fixed.
struct SixJoints {
    int held = -1;  // index of the fixed joint, or -1

    bool fits(const Chain& chain) const { return held < 0 ? chain.kind == 6 : chain.kind == 7 && held < 7; }
    int joint(int i) const { return held >= 0 && i >= held ? i + 1 : i; }

    // Returns the closed form for a value of the fixed joint. The kind is `none` if the six joints have no closed form.
    template <int N>
    ClosedForm form(const Chain& chain, double value) const {
        Kinematics<double, N> at;
        double q[N] = {};
        if (held >= 0) q[held] = value;
        forward<N>(chain, q, at);
        Line axes[6];
        for (int i = 0; i < 6; ++i) {
            const double *axis = at.axis[joint(i)], *origin = at.origin[joint(i)];
            axes[i] = {{axis[0], axis[1], axis[2]}, {origin[0], origin[1], origin[2]}};
        }
        return {axes, motion_of(at.tip)};
    }

    // Returns configurations of all joints from candidates and the value of the fixed joint.
    Configurations with_held(const Candidates& candidates, double value) const {
        Configurations all{held >= 0 ? 7 : 6};
        for (int k = 0; k < candidates.n; ++k) {
            double q[7] = {};
            if (held >= 0) q[held] = value;
            for (int i = 0; i < 6; ++i) q[joint(i)] = candidates.q[k][i];
            all.add(q);
        }
        return all;
    }
};

// Returns the closed form of a chain. The kind is `none` if the form does not reproduce random configurations. If a
// joint is fixed, the form is computed at some value of this joint.
template <int N>
inline ClosedForm tried_form(const Chain& chain, const SixJoints& part) {
    Random random(0.5);
    Kinematics<double, N> at;
    double q[N];
    ClosedForm form;
    int n_found = 0;
    for (int k = 0; k < kTried; ++k) {
        for (double& angle : q) angle = random.uniform(-kPi, kPi);
        if (k == 0 || part.held >= 0) form = part.form<N>(chain, part.held >= 0 ? q[part.held] : 0.0);
        if (form.kind == ClosedForm::Kind::none) return {};
        forward<N>(chain, q, at);
        Candidates candidates;
        form.solve(motion_of(at.tip), candidates);
        Configurations found = part.with_held(candidates, part.held >= 0 ? q[part.held] : 0.0);
        double away = kPi;
        for (Index i = 0; i < found.size(); ++i) away = std::min(away, largest_difference(found.row(i), q, N));
        n_found += away <= std::max(kGivenBack, kMostMoved * form.deviation());
    }
    return n_found >= kFound ? form : ClosedForm{};
}

// Returns the roots of a task's pose. Two roots differ in some joint by more than a tolerance, measured on the circle.
// Limits are ignored, except that a fixed joint keeps its value.
template <int N>
inline Roots closed_form_roots(const Chain& chain, const ClosedForm& form, const SixJoints& part, const Task& task,
                               double tolerance) {
    const double value = part.held >= 0 ? task.bounds.lower[part.held] : 0.0;
    Candidates candidates;
    form.solve(motion_of(task.target), candidates, free_below(task));
    Rows rows(part.with_held(candidates, value));
    Task open = task;
    Bounds<double> circles{};
    for (int j = 0; j < N; ++j) {
        const bool is_held = j == part.held;
        open.bounds.upper[j] = is_held ? value : std::numeric_limits<double>::infinity();
        open.bounds.lower[j] = is_held ? value : -std::numeric_limits<double>::infinity();
        open.bounds.wraps[j] = false;
        circles.lower[j] = is_held ? value : -kPi, circles.upper[j] = is_held ? value : kPi;
        circles.wraps[j] = !is_held;
    }
    measure_rows<N>(chain, task, rows);
    const auto residual = [&](Index i) { return std::max(rows.distances[i], rows.angles[i]); };
    const auto is_unclear = [&](Index i) {
        return is_between<N>(chain, part, task, rows.row(i), residual(i), candidates.is_free[i]);
    };
    const auto has_unclear = [&](bool free) {
        return !numbers_where(rows.size(), [&](Index i) {
                    return candidates.is_free[i] == free && residual(i) <= kMerged && is_unclear(i);
                }).empty();
    };
    bool is_clear = candidates.sweeps.empty() || !has_unclear(true);  // before members of sweeps are polished
    run_rows<N>(chain, open, kPolish, RowJobs::all(rows));
    is_clear &= !has_unclear(false);
    const auto is_exact = [&](Index i) { return residual(i) <= kExactRoot; };
    const auto is_lost = [&](Index i) { return candidates.is_solution[i] && !is_exact(i); };
    Roots roots{{N}};
    roots.is_complete = candidates.is_decided() && is_clear && numbers_where(rows.size(), is_lost).empty();
    roots.is_certified = roots.is_complete;
    if (form.deviation() > 0.0) {  // if roots of this similar arm meet, the actual arm may have none
        const auto fails = [&](Index i) { return !is_exact(i); };
        roots.is_complete &= is_clear && !candidates.meet && numbers_where(rows.size(), fails).empty();
        roots.is_certified = roots.is_complete;
    }
    for (int round = 0; round < 4; ++round) {  // isolated roots before others, exact roots before inexact roots
        const bool exact = round % 2 == 0, free = round >= 2;
        for (Index i = 0; i < rows.size(); ++i) {
            if (candidates.is_free[i] != free || is_exact(i) != exact ||
                !(rows.distances[i] <= task.position_tolerance) || !(rows.angles[i] <= task.orientation_tolerance)) {
                continue;
            }
            double q[N];
            for (int j = 0; j < N; ++j) q[j] = within(circles, j, rows.row(i)[j]);
            const double alike = exact ? tolerance : std::max(tolerance, kMerged);
            const auto is_known = [&](Index k) { return largest_difference(q, roots.row(k), N) <= alike; };
            if (numbers_where(roots.size(), is_known).empty()) roots.add(q);
            roots.is_singular |= free;
        }
        if (round == 1) roots.n_isolated = roots.size();
    }
    roots.is_singular |= !candidates.sweeps.empty();
    roots.is_swept = roots.is_singular && roots.is_complete;
    return roots;
}

// Whether a chain has six independent joints in order, revolute or prismatic.
inline bool has_six_joints(const Chain& chain) {
    bool fits = chain.n_joints == 6 && chain.n_links == 6;
    for (int i = 0; fits && i < 6; ++i) {
        const Link<double>& link = chain.links[i];
        fits = link.source == i && link.multiplier == 1.0 && link.offset == 0.0;
    }
    return fits;
}

// Returns the roots of a task's pose for any arm with six joints, as `closed_form_roots` does. `known` may contain
// configurations near some roots. Each root is verified by forward kinematics.
inline Roots general_roots(const Chain& chain, const General6R& form, const Task& task, double tolerance,
                           bool wants_proof, const Configurations& known = {6}) {
    LoopSolutions near;
    near.n = int(std::min(known.size(), Index(LoopSolutions::kMost)));
    for (int i = 0; i < near.n; ++i) std::copy_n(known.row(i), 6, near.angles[i]);
    const SixRevolute found = form.solve(motion_of(task.target), wants_proof, near);
    Configurations configurations{6};
    for (int i = 0; i < found.solutions.n; ++i) configurations.add(found.solutions.angles[i]);
    Rows rows(std::move(configurations));
    for_kind(chain, [&]<int N>() { measure_rows<N>(chain, task, rows); });
    Roots roots{{6}};
    roots.is_singular = found.is_singular, roots.is_complete = found.is_complete && !found.is_singular;
    for (Index i = 0; i < rows.size(); ++i) {
        if (!(rows.distances[i] <= task.position_tolerance) || !(rows.angles[i] <= task.orientation_tolerance)) {
            roots.is_complete = false;
            continue;
        }
        const auto is_known = [&](Index k) {
            double most = 0.0;
            for (int j = 0; j < 6; ++j) {
                const bool turns = !chain.links[j].slides;
                most = std::max(most, std::abs(difference(rows.row(i)[j], roots.row(k)[j], turns)));
            }
            return most <= tolerance;
        };
        if (numbers_where(roots.size(), is_known).empty()) roots.add(rows.row(i));
    }
    roots.is_certified = roots.is_complete && found.is_certified && roots.size() == found.solutions.n;
    roots.n_isolated = roots.size();
    return roots;
}

// share of the remaining time for the enumeration; measuring the configurations takes the other share
inline constexpr double kShareOfTurns = 0.7;
inline constexpr int kTurnsAtOnce = 64;  // number of configurations between two checks of the clock

// Numbers of all 2 pi-equivalent configurations, and of roots within the limits. `is_sure` is false if a configuration
// within the limits could not be verified.
struct Equivalents {
    double n;
    Index n_roots;
    bool is_sure;
};

// Enumerates 2 pi-equivalent configurations of roots within the limits of a task, in the order of their cost. Returns
// the valid ones among the first `most` configurations, and the numbers of all equivalents. Configurations beyond the
// limits by at most the slack are clamped, and solved again within the limits. The enumeration ends at the deadline, a
// time of the steady clock [s], even if it found fewer configurations than requested. See `Revolutions` for `choice`.
template <int N>
inline Equivalents wind(const Chain& chain, const Task& task, const Configurations& roots, const TurnCost& cost,
                        Index most, double deadline, Rows& rows, std::vector<Index>& sources, double choice = -1.0) {
    const double slack = slack_at_limits(task);
    Revolutions revolutions(chain, task.bounds, roots, slack, cost, choice);
    std::vector<Index> clamped;
    double q[kMostJoints];
    Index source;
    bool is_clamped;
    const double now = steady_seconds();
    Watch watch(now + kShareOfTurns * std::max(0.0, deadline - now), kTurnsAtOnce);
    while (rows.size() < most && !watch.is_past() && revolutions.next(q, source, is_clamped)) {
        if (is_clamped) clamped.push_back(rows.size());
        rows.add(q), sources.push_back(source);
    }
    rows.resize(rows.size());
    run_rows<N>(chain, task, {0.5 * task.position_tolerance, 0.5 * task.orientation_tolerance, 10, 2}, {rows, clamped});
    verify_rows<N>(chain, task, rows);
    const Index n = rows.size();
    const std::vector<Index> kept = numbers_where(n, [&](Index i) { return rows.converged[i]; });
    const auto fails = [&](Index i) { return !rows.converged[i]; };
    const bool is_sure = n - Index(kept.size()) == std::count_if(clamped.begin(), clamped.end(), fails);
    for (std::size_t to = 0; Index(kept.size()) < n && to < kept.size(); ++to) {
        std::copy_n(rows.row(kept[to]), rows.n_joints, rows.row(Index(to)));
        rows.distances[to] = rows.distances[kept[to]], rows.angles[to] = rows.angles[kept[to]];
        rows.converged[to] = 1, sources[to] = sources[kept[to]];
    }
    rows.resize(Index(kept.size())), sources.resize(kept.size());
    return {revolutions.total() - double(n - Index(kept.size())), revolutions.n_within(), is_sure};
}

}  // namespace eim
