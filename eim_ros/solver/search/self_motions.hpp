// All solutions of a pose for an arm with one redundant direction. Restarts without limits lead to self-motions, which
// are traced from end to end. The search ends when the confidence that no self-motion is missing is sufficient.
//
// A restart is a random configuration, uniform on the torus of the joints and within the limits of prismatic joints.
// The pose is solved from this configuration without limits. A restart leads to a known curve, to a new curve, or
// nowhere. Suppose that more than a share eps of restarts leads to unknown components. The probability that r
// successive restarts miss these components is at most (1 - eps)^r. Each run of restarts that ends with a new component
// adds to the probability of an error. The m-th run therefore gets a share of the allowed error probability, and the
// shares sum to 1.
#pragma once

#include <numeric>

#include "certify/components.hpp"
#include "certify/curves.hpp"
#include "certify/moved_curves.hpp"
#include "manifold/curve_tracer.hpp"
#include "manifold/null_space.hpp"
#include "manifold/sweeps.hpp"
#include "manifold/waypoints.hpp"
#include "numerics/portable.hpp"

namespace eim {

inline constexpr int kFirstRestarts = 96, kFewRestarts = 32, kMostRestartsAtOnce = 256;
// [rad, m]: distance from a curve at which restarts in single precision count as points of the curve
inline constexpr double kCoarselySame = 1e-2;
inline constexpr double kEnough = 3e-3;  // [rad, m]: distance of a curve at which the search for a closer one ends
inline constexpr int kMostUnseen = 0;    // largest number of curves found by only one restart at the end of the search
inline constexpr Index kLongestRun = 1000;  // restarts without a new component after which an undecided search ends

// Returns the share of the error probability for the m-th run (m >= 1).
inline double share_of_run(int m) {
    if (m == 1) return 0.05;
    if (m == 2) return 0.8;
    return 0.15 / (double(m - 2) * double(m - 1));
}

struct SelfMotionSearch {
    double confidence;    // requested confidence in (0, 1)
    double missed_share;  // requested bound; if it is at least 1, the search ends when a missing curve is unlikely
    double deadline;      // [s] of the steady clock
    StepOptions effort;
    int first_restarts = kFirstRestarts, most_restarts = std::numeric_limits<int>::max();
};

class SelfMotions {
   public:
    SelfMotions(const Chain& chain, const Task& task, double seed)
        : n_joints_(chain.n_joints),
          task_(task),
          free_(without_limits(chain, task)),
          random_(seed),
          graph_(free_.bounds, chain.n_joints),
          components_(task.bounds, periods(chain, task).data(), chain.n_joints) {
        // the first number is skipped, because it is similar for small seeds
        random_.uniform();
    }

    const std::vector<Component>& components() const { return components_.components(); }
    Index n_restarts() const { return n_restarts_; }
    // Whether tracing failed for the solutions of some restarts, for example near a singularity, or whether a curve
    // only touches a limit.
    bool is_undecided() const { return !is_certified_ && (is_singular_ || components_.touches_limit()); }

    // Returns an upper bound of the share of restarts that lead to missing components, at the given confidence.
    double missed_share(double confidence) const {
        if (is_certified_) return 0.0;
        if (n_run_ == 0) return 1.0;
        return 1.0 - portable::exp(portable::log((1.0 - confidence) * share_of_run(n_runs_)) / double(n_run_));
    }

    // Makes restarts until the bound is reached. Without a bound, makes restarts until a missing curve is unlikely.
    // Returns false if the deadline passed earlier, or if there are too many places or components. The clock is checked
    // only between rounds, so at least one round is always made.
    template <int N>
    bool search(const Chain& chain, const SelfMotionSearch& wanted) {
        CurveTracer<N> tracer(chain, free_, graph_, random_);
        Configurations roots{n_joints_};
        while (true) {
            roots.positions.clear();
            restart<N>(chain, wanted, roots);
            const bool has_ends = roots.size() == 0 || tracer.run(roots, wanted.deadline);
            const bool has_new_components = components_.update(graph_, wanted.deadline) > 0;
            count<N>(chain, wanted.effort, roots);
            n_run_ = has_new_components ? 0 : n_run_ + n_round_, n_runs_ += has_new_components;
            if (!has_ends || components_.is_too_many() || components_.is_cut_short()) {
                n_run_ = 0;
                return false;
            }
            if (is_done(wanted)) return true;
            if (is_past(wanted.deadline) || n_restarts_ >= wanted.most_restarts) return false;
        }
    }

    // Adds the curves of sweeps of a closed form. The curves are certain unless the set of sweeps is undecided.
    void sweep(const Candidates& candidates, const SixJoints& part, double held) {
        const bool is_certain = add_curves(candidates, part, held, components_);
        for (const Sweep& sweep : candidates.sweeps) free_joints_.push_back(part.joint(sweep.joint));
        std::sort(free_joints_.begin(), free_joints_.end());
        free_joints_.erase(std::unique(free_joints_.begin(), free_joints_.end()), free_joints_.end());
        is_certified_ = is_certain && !components_.touches_limit() && !components_.is_too_many();
    }

    // Computes all components in closed form, without a search. If some cells are undecided, for example near a
    // singularity, returns false without components.
    bool certify(const Chain& chain, const ParameterisedForm& form) {
        CurveComponents proven(task_.bounds, periods(chain, task_).data(), n_joints_);
        CertifiedComponents certified(chain, form, task_);
        const bool is_decided = certified.run([&](const Configurations& places, const Configurations& tangents,
                                                  bool is_closed) { proven.adopt(places, tangents, is_closed); });
        if (is_decided) components_ = std::move(proven);
        return is_certified_ = is_decided;
    }
    // Proves that no curve is missing, and traces missing curves that the proof finds. Returns false if the proof is
    // undecided, or if the deadline passes. This overload compares the curves with the curves of a closed form without
    // limits. The closed form may belong to a nominal arm, which has the same number of curves (`certify/isotopy.hpp`).
    bool prove(const Chain& chain, const ParameterisedForm& form, double deadline) {
        Configurations found{n_joints_};  // a place on each curve
        CertifiedComponents nominal(chain, form, free_);
        if (!nominal.places_of_all(found)) return false;
        Rows rows(found);
        run_rows<7>(chain, free_, {free_.position_tolerance, free_.orientation_tolerance, 12, 3}, RowJobs::all(rows));
        Configurations roots{n_joints_};
        for (Index i = 0; i < rows.size(); ++i) {
            if (!rows.converged[i] || !is_beside(rows.row(i), found.row(i))) return false;
            if (known_curve(rows.row(i)) < 0) roots.add(rows.row(i));
        }
        if (roots.size() > 0 && !trace<7>(chain, roots, deadline)) return false;
        std::vector<int> known;
        for (Index i = 0; i < rows.size(); ++i) known.push_back(known_curve(rows.row(i)));
        std::sort(known.begin(), known.end());
        const std::vector<Curve>& curves = components_.curves();
        bool is_all = known.size() == curves.size();
        for (std::size_t i = 0; i < curves.size() && is_all; ++i) is_all = known[i] == int(i) && curves[i].is_closed;
        return is_certified_ = is_all ? may_certify(chain, components_) : replace(chain, nominal, rows);
    }
    bool prove(const Chain& chain, const CurveForms& forms, double deadline) {
        if (forms.nominal.fits() && prove(chain, forms.nominal, deadline)) return true;
        return prove(chain, forms.general, deadline);
    }
    bool prove(const Chain& chain, const General7R& arm, double deadline) {
        if (!may_certify(chain, components_) || has_open_curve()) return false;  // more curves would not change this
        const auto is_known = [&](const double* q) { return known_curve(q) >= 0; };
        // For most poses, one of the readings suffices, with a few bounds of cells. For other poses, the most
        // successful readings get more bounds.
        std::vector<std::pair<double, int>> left;  // share of the circle that is not divided; reading
        for (const int reading : arm.readings()) {
            if (left.size() == kReadings) break;
            left.push_back({1.0, reading});
        }
        for (const long most_looks : {kFewLooks, kManyLooks}) {
            const std::vector<std::pair<double, int>> tried = std::move(left);
            left.clear();
            for (const auto& [open, reading] : tried) {
                if (is_past(deadline)) return false;
                CurveProof proof(arm, motion_of(task_.target), reading);
                if (!proof.prepare(deadline, most_looks)) {
                    if (proof.share() > 0.0) left.push_back({1.0 - proof.share(), reading});
                    continue;
                }
                for (int round = 0; round < kMostRounds; ++round) {
                    Configurations roots{n_joints_};
                    const Knowledge knowledge = proof.compare(components_.curves(), is_known, roots);
                    if (knowledge == Knowledge::all) return is_certified_ = may_certify(chain, components_);
                    if (knowledge == Knowledge::undecided || !trace<7>(chain, roots, deadline)) break;
                }
            }
            std::sort(left.begin(), left.end());
            left.resize(std::min(left.size(), kFarthest));
        }
        return false;
    }
    bool is_certified() const { return is_certified_; }
    const std::vector<int>& free_joints() const { return free_joints_; }  // joints that determine the sweeps

    // Traces the unknown curves through solutions. Returns false if there are too many places, or if the deadline
    // passes.
    template <int N>
    bool trace(const Chain& chain, const Configurations& solutions,
               double deadline = std::numeric_limits<double>::infinity()) {
        const bool has_ends = CurveTracer<N>(chain, free_, graph_, random_).run(solutions, deadline);
        components_.update(graph_, deadline);
        return has_ends;
    }

    // Returns places on the components, which are close to solutions.
    Waypoints places() { return {components_, task_.bounds, n_joints_, random_}; }

    // Corrects places to the pose and verifies them. Returns the valid solutions in random order, without
    // near-duplicates.
    //
    // The function returns at the deadline, a time of the steady clock [s], and sets `is_late`. The result is still
    // spread over all places, because blocks that are processed early are far apart. A few places are always processed.
    template <int N>
    Rows answer(const Chain& chain, Configurations places, double distinct_tolerance, double deadline, bool& is_late) {
        Rows rows({n_joints_});
        Places known(task_.bounds, n_joints_);
        const Index n = places.size(), n_blocks = std::clamp<Index>(n / kBlockOfPlaces, 1, kMostBlocks);
        Index stride = std::max<Index>(1, Index(0.618 * double(n_blocks)));
        while (std::gcd(stride, n_blocks) != 1) ++stride;
        is_late = false;
        for (Index step = 0; step < n_blocks && !is_late; ++step) {
            const Index block = step * stride % n_blocks;
            Index first = n * block / n_blocks;
            const Index end = n * (block + 1) / n_blocks;
            for (; first < end && !is_late; first += kPlacesAtOnce) {
                const double* begin = places.row(first);
                const Index n_some = std::min(kPlacesAtOnce, end - first);
                answer_some<N>(chain, {n_joints_, {begin, begin + n_some * n_joints_}}, distinct_tolerance, known,
                               rows);
                is_late = (first + n_some < end || step + 1 < n_blocks) && is_past(deadline);
            }
        }
        std::vector<Index> kept(rows.size());
        std::iota(kept.begin(), kept.end(), Index(0));
        for (std::size_t i = kept.size(); i > 1; --i) {
            std::swap(kept[i - 1], kept[std::size_t(random_.uniform() * double(i))]);
        }
        Rows chosen({n_joints_});
        chosen.resize(Index(kept.size()));
        for (Index to = 0; to < chosen.size(); ++to) {
            const Index from = kept[to];
            std::copy_n(rows.row(from), n_joints_, chosen.row(to));
            chosen.distances[to] = rows.distances[from], chosen.angles[to] = rows.angles[from];
            chosen.converged[to] = 1, chosen.iterations[to] = rows.iterations[from];
        }
        return chosen;
    }

   private:
    static constexpr int kMostRounds = 8;                          // largest number of rounds that trace missing curves
    static constexpr long kFewLooks = 50000, kManyLooks = 600000;  // numbers of bounds of cells
    static constexpr std::size_t kReadings = 16, kFarthest = 4;
    static constexpr double kLargestCorrection = 0.3;  // [rad]
    static constexpr Index kBlockOfPlaces = 2048, kMostBlocks = 64, kPlacesAtOnce = 512;

    // Whether no joint differs by more than the largest correction of a place on a curve of a nominal arm.
    bool is_beside(const double* q, const double* other) const {
        for (int j = 0; j < n_joints_; ++j) {
            if (!(std::abs(difference(q[j], other[j], free_.bounds.wraps[j])) <= kLargestCorrection)) return false;
        }
        return true;
    }

    // Returns the index of the known curve that contains a solution, or -1. A solution that is only near the cubic of a
    // curve has to be traced. The tracer detects that its curve is known, and adds the solution as a place.
    int known_curve(const double* q) const {
        const int place = graph_.where(q, kSame).place;
        return place < 0 ? -1 : components_.curve_of(place);
    }

    bool has_open_curve() const {
        const std::vector<Curve>& curves = components_.curves();
        return std::any_of(curves.begin(), curves.end(), [](const Curve& curve) { return !curve.is_closed; });
    }

    // Replaces the curves by the curves of a nominal arm, moved to the pose. `rows` has a solution next to each of
    // them. Returns false if the curves differ too much, or do not allow a certificate. After a replacement, no more
    // curves can be traced.
    bool replace(const Chain& chain, CertifiedComponents& nominal, const Rows& rows) {
        const MovedCurves moved(chain, free_);
        CurveComponents all(task_.bounds, periods(chain, task_).data(), n_joints_);
        bool is_close = true;
        const bool is_decided =
            nominal.run([&](const Configurations& places, const Configurations& tangents, bool is_closed) {
                Curve curve{{n_joints_}, {n_joints_}, {}, true};
                is_close = is_close && is_closed && moved.move(places, tangents, curve);
                if (is_close) all.add(std::move(curve), LimitTolerances{});
            });
        const std::vector<Curve>& curves = all.curves();
        if (!is_decided || !is_close || Index(curves.size()) != rows.size()) return false;
        std::vector<std::uint8_t> is_met(curves.size(), 0);
        for (Index i = 0; i < rows.size(); ++i) {  // each solution is on one curve, and each curve has one solution
            int n_near = 0;
            for (std::size_t c = 0; c < curves.size(); ++c) {
                if (!(moved.distance(curves[c], rows.row(i)) <= kSame)) continue;
                if (n_near++ > 0 || is_met[c]) return false;
                is_met[c] = 1;
            }
            if (n_near == 0) return false;
        }
        const auto is_on_some_curve = [&](const Curve& traced) {
            const double* q = traced.places.row(traced.places.size() / 2);
            return std::any_of(curves.begin(), curves.end(),
                               [&](const Curve& curve) { return moved.distance(curve, q) <= kCoarselySame; });
        };
        const std::vector<Curve>& known = components_.curves();
        if (!std::all_of(known.begin(), known.end(), is_on_some_curve) || !may_certify(chain, all)) return false;
        components_ = std::move(all);
        return true;
    }

    // Whether limits cut the curves with certainty, and no two curves cross.
    static bool may_certify(const Chain& chain, const CurveComponents& components) {
        const std::vector<Curve>& curves = components.curves();
        return !components.touches_limit() && std::none_of(curves.begin(), curves.end(), [&](const Curve& curve) {
            return has_branch_point(chain, curve);
        });
    }

    // Whether a curve crosses another curve. At a crossing, the arm is singular. Along both curves, the determinant of
    // the Jacobian with the tangent as last row changes its sign there (Allgower and Georg 1990, 8.1).
    static bool has_branch_point(const Chain& chain, const Curve& curve) {
        double first = 0.0;
        for (Index i = 0; i < curve.places.size(); ++i) {
            Kinematics<double, 7> at;
            forward<7>(chain, curve.places.row(i), at);
            differentiate<7>(chain, at);
            double m[7][7];
            for (int j = 0; j < 7; ++j) {
                for (int k = 0; k < 6; ++k) m[k][j] = at.jacobian[j][k];
                m[6][j] = curve.tangents.row(i)[j];
            }
            const double determinant = triangularise(m);
            if (i == 0) first = determinant;
            if (!(determinant * first > 0.0)) return true;
        }
        return false;
    }

    // Adds the places that are valid and are not near-duplicates of known places.
    template <int N>
    void answer_some(const Chain& chain, Configurations places, double distinct_tolerance, Places& known,
                     Rows& answer) const {
        Rows some(std::move(places));
        const StepOptions close{task_.position_tolerance, task_.orientation_tolerance, 12, 3};
        run_rows<N>(chain, task_, close, RowJobs::all(some));
        verify_rows<N>(chain, task_, some);
        for (Index i = 0; i < some.size(); ++i) {
            if (!some.converged[i]) continue;
            if (distinct_tolerance >= 0.0) {
                if (known.has_duplicate(some.row(i), distinct_tolerance)) continue;
                known.add(some.row(i));
            }
            answer.add(some.row(i));
            answer.distances.push_back(some.distances[i]), answer.angles.push_back(some.angles[i]);
            answer.converged.push_back(1), answer.iterations.push_back(some.iterations[i]);
        }
    }

    static std::vector<double> periods(const Chain& chain, const Task& task) {
        std::vector<double> period(kMostJoints);
        find_periods(chain, period.data());
        for (int j = 0; j < chain.n_joints; ++j) {
            if (task.bounds.lower[j] == task.bounds.upper[j]) period[j] = 0.0;
        }
        return period;
    }

    bool is_done(const SelfMotionSearch& wanted) const {
        // undecided cases cannot be proven complete, even by a longer search
        if (wanted.missed_share < 1.0 && !is_undecided()) return missed_share(wanted.confidence) <= wanted.missed_share;
        int n_once = 0;
        for (std::size_t c = 0; c < hits_.size(); ++c) n_once += hits_[c] == 1 && components_.has_component(int(c));
        return n_once <= kMostUnseen || (is_undecided() && n_run_ >= kLongestRun);
    }

    // Makes the restarts of a round. Restarts that do not lead to a known curve become roots.
    template <int N>
    void restart(const Chain& chain, const SelfMotionSearch& wanted, Configurations& roots) {
        n_round_ = n_restarts_ == 0 ? wanted.first_restarts : kFewRestarts;
        if (wanted.missed_share < 1.0 && n_restarts_ > 0) {
            const double needed = portable::log((1.0 - wanted.confidence) * share_of_run(n_runs_)) /
                                  portable::log1p(-std::min(wanted.missed_share, 1.0 - 1e-12));
            n_round_ = Index(std::clamp(std::ceil(needed) - double(n_run_), 1.0, double(kMostRestartsAtOnce)));
        }
        Rows rows({n_joints_});
        rows.resize(n_round_);
        for (double* q = rows.row(0); q != rows.row(0) + rows.positions.size(); q += n_joints_) {
            for (int j = 0; j < n_joints_; ++j) q[j] = random_.uniform(free_.bounds.lower[j], free_.bounds.upper[j]);
        }
        n_restarts_ += n_round_;
        RowJobs jobs = RowJobs::all(rows);
        if (fits_single(chain, free_)) {
            run_attempts<N, WideFloat>(chain, free_, coarse(chain, wanted.effort), jobs);
        } else {
            run_attempts<N, WideDouble>(chain, free_, coarse(chain, wanted.effort), jobs);
        }
        for (Index i = 0; i < rows.size(); ++i) {
            if (!rows.converged[i]) continue;
            for (int j = 0; j < n_joints_; ++j) {  // single precision moves fixed joints slightly
                if (free_.bounds.lower[j] == free_.bounds.upper[j]) rows.row(i)[j] = free_.bounds.lower[j];
            }
            const OnCurve at = graph_.where(rows.row(i), kCoarselySame, kEnough);
            if (at.place < 0) {
                roots.add(rows.row(i));
            } else {
                ++hits_[std::size_t(components_.curve_of(at.place))];
            }
        }
    }

    // Counts the restarts per curve. If a solution is still on no curve, tracing from it failed.
    template <int N>
    void count(const Chain& chain, const StepOptions& effort, const Configurations& roots) {
        hits_.resize(components_.curves().size(), 0);
        Rows lost({n_joints_});
        for (Index i = 0; i < roots.size(); ++i) {
            const OnCurve at = graph_.where(roots.row(i), kCoarselySame);
            at.place >= 0 ? void(++hits_[std::size_t(components_.curve_of(at.place))]) : lost.add(roots.row(i));
        }
        if (is_singular_ || lost.size() == 0) return;
        lost.resize(lost.size());
        run_rows<N>(chain, free_, effort, RowJobs::all(lost));
        for (Index i = 0; i < lost.size(); ++i) {
            is_singular_ |= lost.converged[i] && graph_.where(lost.row(i), kMaybeSame).place < 0;
        }
    }

    int n_joints_;
    const Task task_, free_;
    Random random_;
    CurveGraph graph_;
    CurveComponents components_;
    std::vector<int> free_joints_;
    std::vector<int> hits_;                           // number of restarts per curve
    Index n_restarts_ = 0, n_run_ = 0, n_round_ = 0;  // in total, since the last new component, in the last round
    int n_runs_ = 1;
    bool is_certified_ = false, is_singular_ = false;
};

}  // namespace eim
