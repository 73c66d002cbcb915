// Solutions on the self-motion curves of a pose, spread evenly or nearest to a configuration.
#pragma once

#include "certify/nearest.hpp"
#include "search/search.hpp"
#include "search/self_motions.hpp"

namespace eim {

inline constexpr Index kMostSolutions = 1'000'000;
inline constexpr int kMostTries = 3;           // largest number of searches that replace near-duplicates
inline constexpr double kDenseShare = 0.9;     // if the share of distinct solutions is smaller, the curves have no more
inline constexpr Index kMore = 4;              // factor of the number of candidates if too few satisfy the conditions
inline constexpr Index kMostChecked = 20'000;  // most configurations checked if some violate the conditions
inline constexpr Index kManyPlaces = 4096;     // number of places above which a coarse set is computed first
inline constexpr Index kCoarsely = 512;        // number of places in the coarse set
inline constexpr double kPlacesForEach = 8.0;  // number of places per distinct solution along a curve
inline constexpr double kNoBound = 1.0;        // bound of the share of missing components if no bound is requested
inline constexpr int kMostNearest = 8;  // largest number of components whose nearest solution is returned if n > 1

inline void append(Rows& to, const Rows& from, Index i) {
    to.add(from.row(i));
    to.distances.push_back(from.distances[i]), to.angles.push_back(from.angles[i]);
    to.converged.push_back(1), to.iterations.push_back(0);
}

inline Rows picked(const Rows& from, const std::vector<Index>& which) {
    Rows rows({from.n_joints});
    for (Index i : which) append(rows, from, i);
    return rows;
}

inline Rows without_duplicates(const Bounds<double>& bounds, const Rows& from, double tolerance) {
    Places known(bounds, from.n_joints);
    return picked(from, numbers_where(from.size(), [&](Index i) {
                      const bool is_new = !known.has_duplicate(from.row(i), tolerance);
                      if (is_new) known.add(from.row(i));
                      return is_new;
                  }));
}

template <int N>
class CurveSolutions {
   public:
    CurveSolutions(const Chain& chain, const Task& task, SelfMotions& motions)
        : chain_(chain), task_(task), motions_(motions) {}

    double total_length() const {
        double length = 0.0;
        for (const Component& component : motions_.components()) length += component.length;
        return length;
    }
    // Returns the number of configurations needed for a spacing.
    double n_parts(double spacing) const {
        double n = 0.0;
        for (const Component& component : motions_.components()) n += std::ceil(component.length / spacing);
        return n;
    }
    // Returns the number of places above which additional places give no new distinct solutions.
    Index most_distinct() const {
        const Index n = Index(motions_.components().size()) + motions_.is_undecided();
        return std::min(kMostSolutions, n + Index(kPlacesForEach * total_length() / kDistinct));
    }

    // Returns solutions that divide all components into parts. If no spacing is given, at most n solutions are
    // returned.
    Rows divided(Index n, double spacing, double deadline, bool& in_time) {
        double tolerance = kDistinct;
        if (spacing > 0.0) {  // neighbours may be half a spacing apart, and must not count as near-duplicates
            tolerance = std::min(tolerance, spacing / (3.0 * std::sqrt(double(chain_.n_joints))));
        } else {
            n = std::min(n, most_distinct());
        }
        Rows coarse({chain_.n_joints});
        bool is_late = false;
        // a coarse set covers all components even if there is not enough time for all places
        if (spacing > 0.0 ? n_parts(spacing) > double(kCoarsely) : n > kManyPlaces) {
            coarse = some(kCoarsely, 0.0, tolerance, deadline, is_late);
        }
        Rows rows = some(n, spacing, tolerance, deadline, is_late);
        in_time = !is_late;
        return is_late && coarse.size() > rows.size() ? coarse : rows;
    }

    // Returns at most n_wanted solutions, spread evenly over all components and in random order. Sets `in_time` to
    // whether there was time to search for n_wanted solutions.
    Rows even(Index n_wanted, double spacing, double deadline, const Conditions& conditions, bool& in_time) {
        if (spacing > 0.0) return allowed(divided(n_wanted, spacing, deadline, in_time), conditions);
        Index n = n_wanted;
        const Index most = std::min(std::max(n_wanted, kMostChecked), most_distinct());
        Rows found = allowed(divided(n, 0.0, deadline, in_time), conditions);
        for (int n_tries = 1; found.size() > 0 && found.size() < n_wanted && n < most && in_time && !is_past(deadline);
             ++n_tries) {
            const bool is_dense = double(found.size()) >= kDenseShare * double(n_wanted);
            if (!conditions && (n_tries == kMostTries || !is_dense)) break;
            n = std::min(conditions ? kMore * n : n + 2 * (n_wanted - found.size()), most);
            Rows more = allowed(divided(n, 0.0, deadline, in_time), conditions);
            if (in_time || more.size() > found.size()) found = std::move(more);
        }
        if (found.size() >= n_wanted) in_time = true, found.resize(n_wanted);
        return found;
    }

    // Returns the solution nearest to a reference on each of the `most` nearest components, in the order of distance.
    // Solutions that divide all components follow. `equivalents` are 2 pi-equivalents of the reference within narrowed
    // limits.
    Rows nearest(const Configurations& equivalents, const Cost& distance, const StepOptions& effort, int most,
                 Index n_others, double deadline, bool& in_time) {
        Configurations places{chain_.n_joints};
        for (Index i = 0; i < equivalents.size(); ++i) {
            const Configurations some = motions_.places().nearest(equivalents.row(i), most);
            for (Index k = 0; k < some.size(); ++k) places.add(some.row(k));
        }
        Rows found = nearest_on_curves<N>(chain_, task_, effort, distance,
                                          Rows(within_limits(std::move(places), task_, distance.turns)));
        in_time = true;
        if (n_others > 0) {
            // several equivalents may lead to the same place
            if (equivalents.size() > 1) found = without_duplicates(task_.bounds, found, kDistinct);
            const Rows others = divided(n_others + found.size(), 0.0, deadline, in_time);
            found.resize(found.size());
            for (Index i = 0; i < others.size(); ++i) append(found, others, i);
            found = without_duplicates(task_.bounds, found, kDistinct);
        }
        std::vector<double> away;
        for (Index i = 0; i < found.size(); ++i) away.push_back(distance(found.row(i)));
        std::vector<Index> order = numbers_where(found.size(), [](Index) { return true; });
        std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return away[a] < away[b]; });
        return picked(found, order);
    }

   private:
    Rows some(Index n, double spacing, double tolerance, double deadline, bool& is_late) {
        bool is_cut = false;
        Configurations places = motions_.places().divided(n, spacing, deadline, is_cut);
        Rows rows = motions_.template answer<N>(chain_, std::move(places), tolerance, deadline, is_late);
        is_late |= is_cut;
        return rows;
    }

    static Rows allowed(Rows found, const Conditions& conditions) {
        if (!conditions) return found;
        std::vector<std::uint8_t> marks(std::size_t(found.size()), 1);
        conditions(found, 0, marks);
        return picked(found, numbers_where(found.size(), [&](Index i) { return marks[std::size_t(i)] != 0; }));
    }

    const Chain& chain_;
    const Task& task_;
    SelfMotions& motions_;
};

// Settings shared by all poses of a call.
struct CurveRequest {
    Index n;            // number of solutions to return
    double spacing;     // distance of neighbours [rad, m], or 0
    double confidence;  // confidence of the bound on missing components
    StepOptions effort;
    const Cost* distance;               // distance from the reference, or null
    const Configurations* equivalents;  // 2 pi-equivalents of the reference within narrowed limits
    const double* start;                // reference with continuous joints between -pi and pi
    const ParameterisedForm* form;      // closed form of the arm, or null
};

struct CurveAnswer {
    Rows rows;
    std::vector<Component> components;
    double missed_share = 1.0;
    bool is_nearest = false;    // whether the solution is certainly the nearest one; no curve was traced
    bool is_undecided = false;  // whether some curve could not be traced
    bool has_searched = false, in_time = false;  // whether there was time for the search, and for all solutions
    bool is_too_fine = false;                    // whether the spacing needs more than n configurations
};

// Returns solutions of one pose on its curves. The search for curves ends when a missing curve is unlikely.
template <int N>
inline CurveAnswer answer_on_curves(const Chain& chain, const Task& task, const CurveRequest& request, double seed,
                                    double deadline) {
    CurveAnswer answer{Rows({chain.n_joints})};
    Rows local({chain.n_joints});
    const bool is_for_nearest = request.distance && request.n == 1;
    if (is_for_nearest) {
        if (request.form) {
            answer.rows = nearest_by_form(chain, *request.form, task, request.effort, *request.distance, request.start);
            answer.is_nearest = answer.rows.size() > 0;
        } else {
            const double* q = request.start;
            Rows start(Configurations{chain.n_joints, {q, q + chain.n_joints}});
            measure_rows<N>(chain, task, start);
            // if all joints are closer than kNearby, the tip turns by less than this bound
            if (task.position_only || start.angles[0] <= kNearby * std::sqrt(double(chain.n_joints))) {
                local = next_to<N>(chain, task, request.effort, *request.distance, q, answer.is_nearest);
                if (answer.is_nearest) answer.rows = local;
            }
        }
        if (answer.is_nearest) return answer;
    }
    SelfMotions motions(chain, task, seed);
    answer.has_searched = motions.search<N>(chain, {request.confidence, kNoBound, deadline, request.effort});
    CurveSolutions<N> solutions(chain, task, motions);
    if (request.distance) {
        const int most = is_for_nearest ? 1 : kMostNearest;
        answer.rows = solutions.nearest(*request.equivalents, *request.distance, request.effort, most,
                                        is_for_nearest ? 0 : request.n, deadline, answer.in_time);
        const auto away = [&](const Rows& rows) { return (*request.distance)(rows.row(0)); };
        if (local.size() > 0 && (answer.rows.size() == 0 || away(local) < away(answer.rows))) answer.rows = local;
        if (answer.rows.size() > request.n) answer.rows.resize(request.n);
    } else if (request.spacing > 0.0 && solutions.n_parts(request.spacing) > double(request.n)) {
        answer.is_too_fine = true;
    } else {
        answer.rows = solutions.even(request.n, request.spacing, deadline, {}, answer.in_time);
    }
    answer.components = motions.components();
    answer.is_undecided = motions.is_undecided();
    answer.missed_share = motions.missed_share(request.confidence);
    return answer;
}

}  // namespace eim
