// Search for solutions of one pose, in rounds.
//
// A round draws seeds from the model or uniformly, moves them onto the pose, and keeps the valid results. If few
// solutions of a round are new, half of the next seeds are uniform. The search therefore solves every pose that uniform
// restarts would solve. If samples of the model are requested, no seed is uniform. The exception is a pose for which
// the first kModelSeeds samples lead to no solution.
//
// With a diversity above 0, seeds are stratified over the experts, and weights are tempered to weight^(1 - diversity /
// 2). Some seeds are always uniform, because the model may miss components. If solutions form curves, a share of the
// solutions comes from continuation. This share is about equal to the diversity. Continuation starts at the solutions
// found first. After the first kContinuationCutoff solutions, this share is halved. If solutions form surfaces, only
// restarts are used, because restarts cost less than continuation.
#pragma once

#include <functional>

#include "numerics/clock.hpp"
#include "search/batch.hpp"
#include "search/search_round.hpp"
#include "selection/farthest_rows.hpp"

namespace eim {

inline constexpr double kDistinct = 0.01;  // [rad or m]: configurations closer than this in every joint are duplicates
inline constexpr double kFinest = 0.001;   // like kDistinct, for continuation if near-duplicates are kept
inline constexpr double kStep = 0.45;      // [rad, m]: length of a continuation step
inline constexpr Index kContinuedSeeds = 1000;  // largest patience after continuation
inline constexpr double kLowYield = 0.2;        // new solutions per seed below which half of the seeds are uniform
inline constexpr Index kSpareSeeds = 4, kSpareForOne = 1;  // extra seeds per round; extra seeds for one solution
inline constexpr Index kModelSeeds = 1000;  // samples of the model without a solution before seeds become uniform
// Least share of new solutions among the converged samples of a model, in the largest round. Below this share, the
// search ends.
inline constexpr double kLeastNew = 0.15;
inline constexpr double kDiverseUniform = 0.25;  // share of uniform seeds for diversity 1
inline constexpr Index kFewestRoots =
    40;  // solutions from seeds before continuation starts, or half of the requested number
inline constexpr Index kContinuationCutoff = 200;  // number of solutions after which half come from continuation
inline constexpr Index kMostContinued = 1000;      // most solutions by continuation in a round; the cost is quadratic
inline constexpr double kLogOf2 = 0.6931471805599453;
inline constexpr int kFinalPatience = 100;  // iterations without progress on the best attempt
inline constexpr Index kMostSeedsPerRound =
    256;  // limits the delay after a timeout, because a round is not interrupted

struct SearchOptions {
    Index n;              // number of requested solutions
    double diversity;     // from 0 (samples of the model) to 1
    double apart;         // [rad or m]: largest difference of near-duplicates in any joint
    bool is_distinct;     // whether near-duplicates are dropped
    bool is_sampled;      // whether solutions are samples of the model
    bool until_deadline;  // whether the search for the first solution continues until the deadline
    Index patience;       // number of seeds without a new solution after which the search ends
    int redundancy;       // dimension of the self-motion
    double oversampling;  // if positive, extra candidates per requested solution; the farthest are kept
    StepOptions effort;
    double deadline;          // [s] of the steady clock
    double ordering_seconds;  // [s]: factor of m log2(m + 2) in the time to order m solutions
};

struct SearchResult {
    Rows rows;  // solutions, or the best attempt, which is marked as invalid
    std::vector<std::uint32_t> experts;
    bool is_late = false;  // whether the deadline passed before there were enough solutions
    Index n_restarts = 0;

    explicit SearchResult(int n_joints) : rows({n_joints}) {}

    void keep(const std::vector<Index>& which) {
        Rows chosen({rows.n_joints});
        chosen.resize(Index(which.size()));
        std::vector<std::uint32_t> sources;
        for (Index to = 0; to < chosen.size(); ++to) {
            const Index from = which[std::size_t(to)];
            std::copy_n(rows.row(from), rows.n_joints, chosen.row(to));
            chosen.distances[to] = rows.distances[from], chosen.angles[to] = rows.angles[from];
            chosen.converged[to] = rows.converged[from], chosen.iterations[to] = rows.iterations[from];
            sources.push_back(experts[std::size_t(from)]);
        }
        rows = std::move(chosen), experts = std::move(sources);
    }
};

// Clears the marks (n,) of the rows from `first` on that violate conditions, for example because they collide.
using Conditions = std::function<void(const Rows& rows, Index first, std::vector<std::uint8_t>& marks)>;

// Search whose first seed is `near` (0 or 1 rows).
template <int N>
class Search {
   public:
    Search(const Chain& chain, const Task& task, const Mixture& mixture, const SearchOptions& options,
           const Configurations& near, const bool* continuous, const Conditions& conditions)
        : chain_(chain),
          task_(task),
          mixture_(mixture),
          options_(options),
          near_(near),
          continuous_(continuous),
          conditions_(conditions) {}

    SearchResult run(double seed) const {
        if (!(options_.oversampling > 0.0)) return run(seed, options_.n, options_.is_distinct);
        // near-duplicates are dropped later, when the farthest solutions are chosen
        SearchResult found = run(seed, Index(double(options_.n) * (1.0 + options_.oversampling)), false);
        const double end = std::max(options_.deadline, steady_seconds() + kGrace);
        const Configurations& rows = found.rows;
        found.keep(farthest_rows(task_.bounds, rows, options_.n, end));
        const bool is_compared = drop_duplicates(found, end);
        found.is_late = (found.is_late && found.rows.size() < options_.n) || !is_compared;
        return found;
    }

   private:
    static constexpr double kGrace = 0.02;  // [s]: time to choose among the solutions found before the deadline

    SearchResult run(double seed, Index n, bool is_distinct) const {
        const double diversity = options_.diversity;
        const bool has_model = mixture_.n_components() > 0;
        const double least_uniform = has_model ? kDiverseUniform * diversity : 1.0;
        const Index n_continued = Index(diversity * (double(std::min(n, kContinuationCutoff)) +
                                                     0.5 * double(std::max<Index>(n - kContinuationCutoff, 0))));
        const Index n_roots = diversity != 0.0 ? std::max(n - n_continued, std::min((n + 1) / 2, kFewestRoots)) : n;
        bool can_continue = n_roots < n && !task_.has_tolerances && options_.redundancy == 1;
        double yield = kHopedYield, uniform_share = least_uniform;
        Index patience = options_.patience, without_gain = 0;
        const ContinuationOptions spread{kStep, is_distinct ? kDistinct : kFinest, options_.redundancy,
                                         options_.deadline};
        SearchRound round{
            0,   0, 1.0 - 0.5 * diversity, is_distinct ? options_.apart : -1.0, false, 0, 0, spread, options_.effort,
            seed};
        Found found(chain_.n_joints);
        SearchResult result(chain_.n_joints);
        for (Index n_rounds = 0;
             found.size() < n && (without_gain < patience || (options_.until_deadline && found.size() == 0));
             ++n_rounds) {
            const double m = found.size();
            if (n_rounds > 0 &&
                is_past(options_.deadline - options_.ordering_seconds * m * portable::log(m + 2.0) / kLogOf2)) {
                result.is_late = true;
                break;
            }
            const Index n_before = found.size();
            const Index n_missing = (can_continue && !round.has_continued ? n_roots : n) - n_before;
            const Index n_spare = n == 1 && n_rounds == 0 ? kSpareForOne : kSpareSeeds;
            const Index n_seeds =
                std::min(std::max(Index(double(n_missing) / yield) + n_spare, 2 * without_gain), kMostSeedsPerRound);
            round.n_uniform = int(uniform_share * double(n_seeds));
            round.n_drawn = int(n_seeds) - round.n_uniform;
            round.fewest_roots = n_rounds > 0 ? 1 : int((n_roots + 1) / 2);
            round.n_wanted = can_continue ? int(std::min(n, n_before + n_seeds + kMostContinued)) : 0;
            const Configurations first = n_rounds > 0 ? Configurations{chain_.n_joints} : near_;
            search_round<N>(chain_, task_, mixture_, round, first, continuous_, found);
            result.n_restarts += n_seeds;
            round.seed = std::fmod(round.seed + kGoldenRatio, 1.0);
            const Index n_seeded = found.n_seeded, n_new = n_seeded - n_before;
            Index gained = n_new;
            if (conditions_) {
                std::vector<std::uint8_t> marks(std::size_t(found.size()), 1);
                conditions_(found.rows, n_before, marks);
                gained = Index(std::count(marks.begin(), marks.begin() + n_seeded, 1)) - n_before;
                found.keep(marks.data());
            } else if (round.has_continued && is_distinct) {  // all other solutions lie between known ones
                gained = found.n_remote;
            }
            if (can_continue && n_seeded >= round.fewest_roots) {
                round.has_continued = true, patience = std::min(patience, kContinuedSeeds);
                can_continue = !conditions_ && found.size() < kMostContinued;
            }
            without_gain = gained > 0 ? 0 : without_gain + n_seeds;
            if (options_.is_sampled && n_seeds == kMostSeedsPerRound && n_new < kLeastNew * found.n_converged) break;
            yield = std::max(double(n_new) / double(n_seeds), kWorstYield);
            if (!options_.is_sampled) {
                uniform_share = std::max(least_uniform, yield < kLowYield ? 0.5 : 0.0);
            } else if (found.size() == 0 && without_gain >= kModelSeeds) {
                uniform_share = 1.0;
            }
        }
        if (found.size() == 0) return attempt(found, std::move(result));
        result.rows = std::move(found.rows), result.experts = std::move(found.experts);
        return result;
    }

    // Returns the best attempt after more iterations.
    SearchResult attempt(const Found& found, SearchResult result) const {
        StepOptions effort = options_.effort;
        effort.patience = kFinalPatience;
        result.rows = Rows(within_limits(Configurations{chain_.n_joints, found.best}, task_, continuous_));
        refine_rows<N>(chain_, task_, effort, result.rows);
        verify_rows<N>(chain_, task_, result.rows);
        if (conditions_ && result.rows.converged[0]) conditions_(result.rows, 0, result.rows.converged);
        result.experts.assign(1, kNoExpert);
        return result;
    }

    // Drops near-duplicates. Returns whether there was time to compare all solutions.
    bool drop_duplicates(SearchResult& found, double deadline) const {
        Places known(task_.bounds, chain_.n_joints);
        Watch watch(deadline);
        std::vector<Index> kept;
        Index i = 0;
        for (; i < found.rows.size() && !watch.is_past(); ++i) {
            if (known.has_duplicate(found.rows.row(i), kDistinct)) continue;
            known.add(found.rows.row(i)), kept.push_back(i);
        }
        const bool is_compared = i == found.rows.size();
        found.keep(kept);
        return is_compared;
    }

    const Chain& chain_;
    const Task& task_;
    const Mixture& mixture_;
    const SearchOptions& options_;
    const Configurations& near_;
    const bool* continuous_;
    const Conditions& conditions_;
};

}  // namespace eim
