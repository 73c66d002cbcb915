// All solutions of a pose of an arm that has a closed form: its roots polished, told apart, and turned into the limits.
#pragma once

#include "closed_form.hpp"
#include "random.hpp"
#include "windings.hpp"

namespace eim {

inline constexpr Effort kPolish{1e-12, 1e-12, 25, 1};  // rounding ends it; where roots meet it takes some steps
inline constexpr int kTried = 16, kFound = 14;  // random configurations that a closed form has to give back, most
inline constexpr double kMostMoved = 50.0;      // of the deviation of a form from the arm: how far it moves roots
inline constexpr double kGivenBack = 1e-4;      // [rad]
inline constexpr double kExactRoot = 1e-9;      // [m], [rad]: errors of roots, but for rounding
inline constexpr double kMerged =
    0.05;  // [rad]: what is within the tolerances only, so near a root, is none of its own

// Roots, each joint within half a turn of zero.
struct Roots : Configurations {
    bool is_singular = false;  // some are of infinitely many
    bool is_whole = true;      // there are no others: the form is that of the very arm, or no roots meet
};

inline Motion motion_of(const double (&rows)[3][4]) {
    Motion motion;
    for (int k = 0; k < 3; ++k) motion.rows[k] = {rows[k][0], rows[k][1], rows[k][2]};
    motion.translation = {rows[0][3], rows[1][3], rows[2][3]};
    return motion;
}

inline Motion motion_of(const Frame<double>& frame) {
    double rows[3][4];
    for (int k = 0; k < 3; ++k) {
        rows[k][0] = frame.x[k], rows[k][1] = frame.y[k], rows[k][2] = frame.z[k], rows[k][3] = frame.origin[k];
    }
    return motion_of(rows);
}

// The closed form of a chain: of kind `none` where there is none, or it does not give back configurations.
inline ClosedForm closed_form_of(const Chain& chain) {
    if (chain.kind != 6) return {};
    Kinematics<double, 6> at;
    double q[6] = {};
    forward<6>(chain, q, at);
    Line axes[6];
    for (int i = 0; i < 6; ++i) {
        axes[i].direction = {at.axis[i][0], at.axis[i][1], at.axis[i][2]};
        axes[i].point = {at.origin[i][0], at.origin[i][1], at.origin[i][2]};
    }
    ClosedForm form(axes, motion_of(at.tip));
    Random random(0.5);
    int n_found = 0;
    for (int k = 0; k < kTried && form.kind != ClosedForm::Kind::none; ++k) {
        for (double& angle : q) angle = random.uniform(-kPi, kPi);
        forward<6>(chain, q, at);
        Candidates candidates;
        form.solve(motion_of(at.tip), candidates);
        bool is_found = false;
        for (int i = 0; i < candidates.n; ++i) {
            double away = 0.0;
            for (int j = 0; j < 6; ++j) away = std::max(away, std::abs(difference(candidates.q[i][j], q[j], true)));
            is_found |= away <= std::max(kGivenBack, kMostMoved * form.deviation());
        }
        n_found += is_found;
    }
    return n_found >= kFound ? form : ClosedForm{};
}

// Roots of a task's pose that differ in some joint by more than a tolerance on the circle, within no limits.
inline Roots closed_form_roots(const Chain& chain, const ClosedForm& form, const Task& task, double tolerance) {
    Candidates candidates;
    form.solve(motion_of(task.target), candidates);
    Configurations given{6};
    for (int i = 0; i < candidates.n; ++i) given.add(candidates.q[i]);
    Rows rows(std::move(given));
    Task open = task;
    for (int j = 0; j < 6; ++j) {
        open.bounds.lower[j] = -std::numeric_limits<double>::infinity();
        open.bounds.upper[j] = -open.bounds.lower[j], open.bounds.wraps[j] = false;
    }
    run_rows<6>(chain, open, kPolish, RowJobs::all(rows));
    Roots roots{{6}};
    if (form.deviation() > 0.0) {
        const auto fails = [&](Index i) { return !(std::max(rows.distances[i], rows.angles[i]) <= kExactRoot); };
        roots.is_whole = !candidates.meet && numbers_where(rows.size(), fails).empty();
    }
    Bounds<double> circles{};
    std::fill_n(circles.lower, 6, -kPi), std::fill_n(circles.upper, 6, kPi), std::fill_n(circles.wraps, 6, true);
    for (const bool exact : {true, false}) {
        for (Index i = 0; i < rows.size(); ++i) {
            const double error = std::max(rows.distances[i], rows.angles[i]);
            if ((error <= kExactRoot) != exact || !(rows.distances[i] <= task.position_tolerance) ||
                !(rows.angles[i] <= task.orientation_tolerance)) {
                continue;
            }
            double q[6];
            for (int j = 0; j < 6; ++j) q[j] = within(circles, j, rows.row(i)[j]);
            bool is_known = false;
            for (Index k = 0; k < roots.size(); ++k) {
                double away = 0.0;
                for (int j = 0; j < 6; ++j) away = std::max(away, std::abs(difference(q[j], roots.row(k)[j], true)));
                if (away > (exact ? tolerance : std::max(tolerance, kMerged))) continue;
                is_known = true;
            }
            if (!is_known) roots.add(q);
            roots.is_singular |= candidates.is_free[i];
        }
    }
    return roots;
}

// The first of the windings of roots within the limits of a task, at most `most`, those that are valid, and the number
// of all. What stands out of the limits by at most the tolerance is clamped, and refined within them.
template <int N>
inline double wind(const Chain& chain, const Task& task, const Configurations& roots, const TurnCost& cost, Index most,
                   Rows& rows, std::vector<Index>& sources) {
    const double slack = std::min({task.position_tolerance, task.orientation_tolerance, 0.01});
    Windings windings(chain, task.bounds, roots, slack, cost);
    std::vector<Index> clamped;
    double q[kMostJoints];
    Index source;
    bool is_clamped;
    while (rows.size() < most && windings.next(q, source, is_clamped)) {
        if (is_clamped) clamped.push_back(rows.size());
        rows.add(q), sources.push_back(source);
    }
    rows.resize(rows.size());
    run_rows<N>(chain, task, {0.5 * task.position_tolerance, 0.5 * task.orientation_tolerance, 10, 2}, {rows, clamped});
    verify_rows<N>(chain, task, rows);
    const Index n = rows.size();
    const std::vector<Index> kept = numbers_where(n, [&](Index i) { return rows.converged[i]; });
    for (std::size_t to = 0; Index(kept.size()) < n && to < kept.size(); ++to) {
        std::copy_n(rows.row(kept[to]), rows.n_joints, rows.row(Index(to)));
        rows.distances[to] = rows.distances[kept[to]], rows.angles[to] = rows.angles[kept[to]];
        rows.converged[to] = 1, sources[to] = sources[kept[to]];
    }
    rows.resize(Index(kept.size())), sources.resize(kept.size());
    return windings.total() - double(n - Index(kept.size()));
}

}  // namespace eim
