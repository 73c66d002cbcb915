// Checks of Newton's method and restarts. Single seeds must agree with packs, and a start in single precision must not
// change results.
#include <numeric>

#include "checks.hpp"
#include "search/batch.hpp"

using namespace eim;

static int n_converged(const Rows& rows) {
    return int(std::count(rows.converged.begin(), rows.converged.end(), 1));
}

static Rows uniform_rows(const Task& task, int n_joints, int n, double seed) {
    Random random(seed);
    Rows rows({n_joints});
    rows.resize(n);
    for (int i = 0; i < n; ++i) uniform_in(task, n_joints, random, rows.row(i));
    return rows;
}

// Runs attempts from the seeds `rows` with numbers of type V.
template <class V, int N>
static Rows attempts(const Chain& chain, const Task& task, const StepOptions& effort, Rows rows) {
    RowJobs jobs = RowJobs::all(rows);
    run_attempts<N, V>(chain, task, std::is_same_v<Scalar<V>, double> ? effort : coarse(chain, effort), jobs);
    return rows;
}

// Returns the number of rows that agree in position, outcome and number of steps.
static int n_alike(const Rows& a, const Rows& b, double tolerance) {
    int n = 0;
    for (Index i = 0; i < a.size(); ++i) {
        bool alike = a.converged[i] == b.converged[i] && a.iterations[i] == b.iterations[i];
        for (int j = 0; j < a.n_joints; ++j) {
            alike &= std::abs(std::remainder(a.row(i)[j] - b.row(i)[j], kTwoPi)) <= tolerance;
        }
        n += alike;
    }
    return n;
}

// At most 1 of 50 seeds may differ. A seed near the boundary of a basin of attraction may converge elsewhere if
// rounding differs.
static void claim_alike(const Rows& a, const Rows& b, double tolerance, const std::string& what) {
    const int n = int(a.size()), alike = n_alike(a, b, tolerance);
    claim(alike >= n - std::max(1, n / 50),
          what + ": " + std::to_string(alike) + " of " + std::to_string(n) + " agree");
}

// Calls check(N, chain, task) for all arms, with tasks for poses, for positions and with tolerances.
template <class Check>
static void for_tasks(Check check) {
    for_arms([&]<int N>(const Chain& chain) {
        for (bool position_only : {false, true}) {
            check.template operator()<N>(chain, reachable(chain, 0.15, nullptr, position_only));
        }
        Task task = reachable(chain, 0.35);
        task.has_tolerances = true;
        task.tolerances[0] = 0.02, task.tolerances[5] = std::numeric_limits<double>::infinity();
        check.template operator()<N>(chain, task);
    });
}

CHECK(one_by_one_is_side_by_side_in_double_precision) {
    for_tasks([]<int N>(const Chain& chain, const Task& task) {
        // tasks with tolerances get only 15 steps, because further steps alternate between limits and tolerances, and
        // magnify rounding errors
        const StepOptions effort{1e-6, 1e-6, task.has_tolerances ? 15 : 60, 6};
        const Rows seeds = uniform_rows(task, chain.n_joints, 61, 0.8);
        claim_alike(attempts<double, N>(chain, task, effort, seeds),
                    attempts<WideDouble, N>(chain, task, effort, seeds), 1e-6,
                    "seeds of " + std::to_string(chain.n_joints) + " joints");
    });
}

CHECK(one_by_one_is_side_by_side_in_single_precision) {
    for_tasks([]<int N>(const Chain& chain, const Task& task) {
        if (task.has_tolerances) return;  // tasks with tolerances never start in single precision
        const StepOptions effort{1e-6, 1e-6, 3, 6};
        const Rows seeds = uniform_rows(task, chain.n_joints, 101, 0.8);
        // near singularities, three steps magnify a rounding error of 1e-7 several thousand times
        claim_alike(attempts<float, N>(chain, task, effort, seeds), attempts<WideFloat, N>(chain, task, effort, seeds),
                    1e-3, "seeds of " + std::to_string(chain.n_joints) + " joints");
    });
}

CHECK(any_number_of_joints_refines_as_seven) {
    const Chain chain = arm(7);
    const Task task = reachable(chain, 0.15);
    const Rows seeds = uniform_rows(task, 7, 101, 0.8);
    claim_alike(attempts<double, 7>(chain, task, kEffort, seeds), attempts<double, 0>(chain, task, kEffort, seeds),
                1e-6, "one by one");
    claim_alike(attempts<WideDouble, 7>(chain, task, kEffort, seeds),
                attempts<WideDouble, 0>(chain, task, kEffort, seeds), 1e-6, "side by side");
}

CHECK(one_attempt_is_the_first_of_many) {
    for_tasks([]<int N>(const Chain& chain, const Task& task) {
        const Rows seeds = uniform_rows(task, chain.n_joints, 5, 0.4);
        const Rows many = attempts<double, N>(chain, task, kEffort, seeds);
        Rows one({chain.n_joints, {seeds.row(0), seeds.row(1)}});
        run_rows<N>(chain, task, kEffort, RowJobs::all(one));
        claim(one.iterations[0] == many.iterations[0] && one.converged[0] == many.converged[0], "steps");
        for (int j = 0; j < chain.n_joints; ++j) claim(one.row(0)[j] == many.row(0)[j], "configuration");
    });
}

CHECK(any_number_of_seeds_is_refined) {
    const Chain chain = arm(7);
    const Task task = reachable(chain, 0.15);
    constexpr int W = kLanes<WideDouble>;
    for (int n : {0, 1, 2, W - 1, W, W + 1, 2 * W, 2 * W + 1, 100}) {
        const Rows seeds = uniform_rows(task, 7, n, 0.3);
        const Rows plain = attempts<double, 7>(chain, task, kEffort, seeds);
        Rows ours = seeds;
        refine_rows<7>(chain, task, kEffort, ours);
        for (int i = 0; i < n; ++i) {  // rows that start in single precision may fail, but must be marked as failed
            const bool done = ours.distances[i] <= 1e-6 && ours.angles[i] <= 1e-6;
            claim(done == (ours.converged[i] != 0), "what converged is within the tolerances");
        }
        if (n <= W) claim_alike(ours, plain, 1e-6, std::to_string(n) + " seeds");
    }
}

CHECK(single_precision_first_converges_as_often_and_as_exactly) {
    for_tasks([]<int N>(const Chain& chain, const Task& task) {
        if (task.has_tolerances) return;
        constexpr int n = 300;
        const Rows seeds = uniform_rows(task, chain.n_joints, n, 0.9);
        const Rows plain = attempts<WideDouble, N>(chain, task, kEffort, seeds);
        Rows mixed = seeds;
        refine_rows<N>(chain, task, kEffort, mixed);
        int n_same = 0, n_both = 0;
        for (std::ptrdiff_t i = 0; i < n; ++i) {
            if (!mixed.converged[i] || !plain.converged[i]) continue;
            bool same = true;
            for (int j = 0; j < chain.n_joints; ++j) {
                same &= std::abs(std::remainder(mixed.row(i)[j] - plain.row(i)[j], kTwoPi)) < 1e-2;
            }
            ++n_both, n_same += same;
        }
        // seeds near boundaries of basins may converge elsewhere in single precision; the tolerance is 5 % plus three
        // standard deviations
        claim(std::abs(n_converged(mixed) - n_converged(plain)) <= n / 20 + 5,
              "as often: " + std::to_string(n_converged(mixed)) + " and " + std::to_string(n_converged(plain)));
        claim(n_same >= 0.85 * n_both, "to the same: " + std::to_string(n_same) + " of " + std::to_string(n_both));
        Rows verified({chain.n_joints, mixed.positions});
        verify_rows<N>(chain, task, verified);
        claim(mixed.converged == verified.converged, "what converged is what verifies");
    });
}

CHECK(settings_are_obeyed) {
    const Chain chain = arm(6);
    const Task task = reachable(chain, 0.15);
    const Rows seeds = uniform_rows(task, 6, 50, 0.6);
    for (const StepOptions& effort :
         {StepOptions{1e-6, 1e-6, 0, 6}, {1e-6, 1e-6, 3, 6}, {1e-6, 1e-6, 60, 1}, {1e-2, 1e-2, 60, 6}}) {
        Rows mixed = seeds;
        refine_rows<6>(chain, task, effort, mixed);
        for (std::int64_t steps : mixed.iterations) claim(steps <= effort.max_iterations, "most steps");
        if (effort.max_iterations == 0) claim(mixed.positions == seeds.positions || n_converged(mixed) == 0, "no step");
        claim_alike(attempts<double, 6>(chain, task, effort, seeds),
                    attempts<WideDouble, 6>(chain, task, effort, seeds), 1e-6, "with these settings");
    }
}

CHECK(narrow_limits_hold_and_seeds_outside_are_clamped) {
    for_arms([]<int N>(const Chain& chain) {
        Task task = reachable(chain, 0.15);
        const Rows seeds = uniform_rows(task, chain.n_joints, 50, 0.6);
        for (int j = 0; j < chain.n_joints; ++j) set_limits(task, j, -0.1 * j, 0.1, false);
        set_limits(task, 1, 0.05, 0.05);
        for (const int n : {1, 3, 50}) {
            Rows refined = seeds;
            refined.resize(n);
            refine_rows<N>(chain, task, kEffort, refined);
            for (int i = 0; i < n; ++i) claim(is_inside(task.bounds, refined.row(i), chain.n_joints), "inside");
        }
    });
}

CHECK(seeds_that_are_not_numbers_converge_nowhere_and_leave_others_alone) {
    for_arms([]<int N>(const Chain& chain) {
        const Task task = reachable(chain, 0.15);
        Rows without = uniform_rows(task, chain.n_joints, 41, 0.6), with = without;
        refine_rows<N>(chain, task, kEffort, without);
        for (int j = 0; j < chain.n_joints; ++j) with.row(7)[j] = NAN;
        refine_rows<N>(chain, task, kEffort, with);
        claim(!with.converged[7], "a solution that is no number");
        claim(std::abs(n_converged(with) - n_converged(without)) <= 2, "others");
        verify_rows<N>(chain, task, with);
        claim(!with.converged[7], "verified");
    });
}

// Returns one solution of each target (n, 4, 4), or the best attempt if no solution was found.
template <int N>
BatchRows solved_from_uniform_seeds(const Chain& chain, const Task& task, const std::vector<double>& targets,
                                    std::int64_t most_seeds) {
    const Index n = Index(targets.size()) / 16;
    std::vector<std::uint64_t> numbers(n);
    std::iota(numbers.begin(), numbers.end(), 0);
    const std::vector<std::int64_t> patience(n, most_seeds);
    const double never = std::numeric_limits<double>::infinity();
    return solve_batch<N>(chain, task,
                          {targets.data(), numbers.data(), patience.data(), n, 1, 1, 0.01, kEffort, never});
}

CHECK(restarts_find_a_solution_of_each_pose) {
    for_arms([]<int N>(const Chain& chain) {
        for (int n : {0, 1, 2, 3, 40}) {
            std::vector<double> targets(std::size_t(n) * 16, 0.0);
            for (int i = 0; i < n; ++i) {
                const Task each = reachable(chain, 0.02 * i);
                std::copy_n(&each.target[0][0], 12, &targets[std::size_t(16 * i)]);
                targets[std::size_t(16 * i + 15)] = 1.0;
            }
            Task task = reachable(chain, 0.0);
            const Rows solved = solved_from_uniform_seeds<N>(chain, task, targets, 1000).rows;
            claim(n_converged(solved) == n,
                  std::to_string(n_converged(solved)) + " of " + std::to_string(n) + " solved");
            for (int i = 0; i < n; ++i) {
                std::copy_n(&targets[std::size_t(16 * i)], 12, &task.target[0][0]);
                Rows one({chain.n_joints, {solved.row(i), solved.row(i) + chain.n_joints}});
                verify_rows<N>(chain, task, one);
                claim(one.converged[0], "a solution that verifies");
            }
        }
    });
}

CHECK(restarts_of_what_is_out_of_reach_end) {
    for_arms([]<int N>(const Chain& chain) {
        std::vector<double> target = {1, 0, 0, 50, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
        const Task task = reachable(chain, 0.0);
        const Rows solved = solved_from_uniform_seeds<N>(chain, task, target, 3).rows;
        claim(n_converged(solved) == 0 && solved.distances[0] > 30.0, "no solution, and its error");
        claim(is_inside(task.bounds, solved.row(0), chain.n_joints), "the best attempt is within the limits");
    });
}
