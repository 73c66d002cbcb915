// The closed form of an arm, and the solutions that it gives for a pose.
#pragma once

#include <memory>
#include <string>

#include "closed_form/finite_solutions.hpp"

namespace eim {

// The closed form of an arm, or of six of its joints while another joint is fixed.
struct ArmForm {
    SixJoints part;
    ClosedForm form;                           // at some value of the fixed joint, if there is one
    std::shared_ptr<const General6R> general;  // for arms without closed form, or with an approximate one
};

inline ArmForm make_form(const Chain& chain, int held) {
    ArmForm made{{held}, {}, {}};
    const bool slides = !made.part.fits(chain) && held < 0 && has_six_joints(chain);
    if (!made.part.fits(chain) && !slides) return made;
    if (!slides) made.form = held < 0 ? tried_form<6>(chain, made.part) : tried_form<7>(chain, made.part);
    if (held < 0 && (made.form.kind == ClosedForm::Kind::none || made.form.deviation() > 0.0)) {
        auto general = std::make_shared<const General6R>(chain);
        if (general->exists()) made.general = std::move(general);
    }
    return made;
}

// Returns the reason why an arm has a closed form, or an empty text if it does not have one.
inline std::string kind_of(const ArmForm& arm) {
    using Kind = ClosedForm::Kind;
    const ClosedForm& form = arm.form;
    if (form.kind == Kind::none) return arm.general ? "general" : "";
    if (form.kind == Kind::spherical_wrist) return form.is_reversed ? "spherical shoulder" : "spherical wrist";
    const bool is_middle = form.kind == Kind::middle_parallel;
    if (form.is_reversed) return is_middle ? "axes 3 to 5 are parallel" : "axes 4 to 6 are parallel";
    return is_middle ? "axes 2 to 4 are parallel" : "axes 1 to 3 are parallel";
}

// Returns the roots of a pose. If the closed form belongs to a nearby arm and leaves the pose undecided, the general
// form is used as well.
inline Roots found_roots(const ArmForm& arm, const Chain& chain, const Task& task, double tolerance,
                         bool wants_proof = false) {
    const int held = arm.part.held;
    if (held >= 0) {
        const ClosedForm form = arm.part.form<7>(chain, task.bounds.lower[held]);
        return closed_form_roots<7>(chain, form, arm.part, task, tolerance);
    }
    if (arm.form.kind == ClosedForm::Kind::none)
        return general_roots(chain, *arm.general, task, tolerance, wants_proof);
    const Roots roots = closed_form_roots<6>(chain, arm.form, arm.part, task, tolerance);
    if (!arm.general || (roots.is_complete && !roots.is_singular)) return roots;
    Roots all = general_roots(chain, *arm.general, task, tolerance, wants_proof, roots);
    if (all.is_complete) return all;
    const double alike = std::max(tolerance, kMerged);  // other roots are accurate only to the tolerances
    for (Index i = 0; i < roots.size(); ++i) {
        const auto is_known = [&](Index k) { return largest_difference(roots.row(i), all.row(k), 6) <= alike; };
        if (numbers_where(all.size(), is_known).empty()) all.add(roots.row(i));
        if (i < roots.n_isolated) all.n_isolated = all.size();
    }
    all.is_singular |= roots.is_singular;
    return all;
}

// Solutions of several poses: rows ordered by pose, and a table with one line per pose.
struct PoseSolutions {
    Rows rows;
    std::vector<double> table;
};

inline constexpr Index kLine = 8;  // number of entries per line of the table
// [rad, m]: roots are nearly equal if they differ by less in each joint
inline constexpr double kNearDuplicates = 0.01;

// Adds a configuration as the only solution if it solves the task. No other solution can be nearer to it.
inline bool add_reference(const Chain& chain, const Task& task, const double* q, PoseSolutions& all) {
    Rows row(Configurations{chain.n_joints, {q, q + chain.n_joints}});
    for_kind(chain, [&]<int N>() { verify_rows<N>(chain, task, row); });
    if (!row.converged[0]) return false;
    const double line[kLine] = {1.0, 1.0, std::numeric_limits<double>::infinity()};
    all.table.insert(all.table.end(), line, line + kLine);
    all.rows.positions.insert(all.rows.positions.end(), q, q + chain.n_joints);
    all.rows.distances.push_back(row.distances[0]), all.rows.angles.push_back(row.angles[0]);
    return true;
}

inline bool has_near_duplicates(const Roots& roots) {
    for (Index i = 0; i < roots.size(); ++i) {
        for (Index k = 0; k < i; ++k) {
            if (largest_difference(roots.row(i), roots.row(k), roots.n_joints) <= kNearDuplicates) return true;
        }
    }
    return false;
}

// Adds up to `most` solutions of a pose: the roots within the limits, and their 2 pi-equivalents. With a choice, only
// one root and its equivalents are added.
inline void add_solutions(const ArmForm& arm, const Chain& chain, const Task& task, double tolerance, bool wants_proof,
                          const TurnCost& cost, Index most, double deadline, double choice, PoseSolutions& all) {
    if (most == 1 && !cost.by_root && add_reference(chain, task, cost.reference, all)) return;
    const Roots roots = found_roots(arm, chain, task, tolerance, wants_proof);
    Rows rows({chain.n_joints});
    std::vector<Index> sources;
    Equivalents all_found{};
    const Index n_most = choice < 0.0 ? std::max(most, roots.size()) : most;
    for_kind(chain,
             [&]<int N>() { all_found = wind<N>(chain, task, roots, cost, n_most, deadline, rows, sources, choice); });
    const auto is_reached = [&](Index i) { return std::find(sources.begin(), sources.end(), i) != sources.end(); };
    const Index n_reached = choice < 0.0 ? Index(numbers_where(roots.size(), is_reached).size()) : all_found.n_roots;
    const double line[kLine] = {double(rows.size()),
                                double(n_reached),
                                all_found.n,
                                double(roots.is_complete && all_found.is_sure),
                                double(roots.is_certified),
                                double(roots.is_singular),
                                double(roots.is_swept),
                                double(has_near_duplicates(roots))};
    all.table.insert(all.table.end(), line, line + kLine);
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(all.rows.positions, rows.positions);
    append(all.rows.distances, rows.distances), append(all.rows.angles, rows.angles);
}

}  // namespace eim
