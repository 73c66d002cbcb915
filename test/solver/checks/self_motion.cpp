// Checks of self-motions and search rounds: continuation, manifolds and descent must return only solutions.
#include "checks.hpp"
#include "search/search_round.hpp"

using namespace eim;

// Checks that rows (n, n_joints) are solutions within the limits, row by row and with the template for any chain.
static void claim_solutions(const Chain& chain, const Task& task, const double* rows, int n, const std::string& what) {
    Kinematics<double, 0> at;
    Difference<double> error;
    for (int i = 0; i < n; ++i) {
        const double* q = rows + std::ptrdiff_t(i) * chain.n_joints;
        forward<0>(chain, q, at);
        measure(at.tip, target_of<double>(task), task, error);
        claim(error.distance <= 1.001e-6 && error.angle <= 1.001e-6, what + ": not at the pose");
        claim(is_inside(task.bounds, q, chain.n_joints), what + ": outside the limits");
    }
}

static double apart(const Task& task, const double* a, const double* b, int n_joints) {
    double square = 0.0;
    for (int j = 0; j < n_joints; ++j) {
        const double away = difference(a[j], b[j], task.bounds.wraps[j]);
        square += away * away;
    }
    return std::sqrt(square);
}

// Returns solutions that are spread over the self-motion of `q`.
template <int N>
static std::vector<double> spread_from(const Chain& chain, const Task& task, const double* q,
                                       const ContinuationOptions& spread, int capacity) {
    Configurations points{chain.n_joints};
    points.add(q);
    spread_over<N>(chain, task, spread, 0.3, capacity, points);
    claim(points.size() <= capacity, "no more than were asked for");
    return points.positions;
}

CHECK(continuation_finds_solutions_a_step_apart) {
    double q[kMostJoints];
    const Chain seven = arm(7), eight = arm(8, Joints::any);
    const auto check = [&]<int N>(const Chain& chain, const Task& task) {
        const std::vector<double> rows = spread_from<N>(chain, task, q, {0.3, -1.0, 1}, 200);
        const int n = int(rows.size()) / chain.n_joints;
        claim_solutions(chain, task, rows.data(), n, "continuation");
        for (int i = 0; i < n; ++i) {
            for (int k = 0; k < i; ++k) {  // places are compared before their error of 1e-4 is corrected
                const double away = apart(task, &rows[std::size_t(i * chain.n_joints)],
                                          &rows[std::size_t(k * chain.n_joints)], chain.n_joints);
                claim(away > 0.95 * kSpacing * 0.3, "two solutions " + std::to_string(away) + " apart");
            }
        }
        return n;
    };
    for (int i = 0; i < 10; ++i) {
        const Task task = reachable(seven, 0.05 * i, q);
        const int fixed = check.operator()<7>(seven, task), any_number = check.operator()<0>(seven, task);
        // the self-motion is the same, but branches of the search meet at other places because rounding differs
        claim(std::abs(fixed - any_number) <= 2 + fixed / 5,
              "as many: " + std::to_string(fixed) + ", " + std::to_string(any_number));
        Task held = reachable(eight, 0.05 * i, q);
        set_limits(held, 0, q[0], q[0]);
        check.operator()<0>(eight, held);
    }
}

CHECK(continuation_of_an_arm_without_self_motion_finds_nothing_new_and_ends) {
    double q[kMostJoints];
    const Chain chain = arm(6);
    for (int i = 0; i < 5; ++i) {
        const Task task = reachable(chain, 0.05 * i, q);
        const std::vector<double> rows = spread_from<6>(chain, task, q, {0.3, -1.0, 1}, 50);
        claim_solutions(chain, task, rows.data(), int(rows.size()) / 6, "no self-motion");
        claim(spread_from<6>(chain, task, q, {0.3, -1.0, 0}, 50).size() == 6, "no dimensions");
    }
}

CHECK(gaps_are_divided_until_all_are_found) {
    double q[kMostJoints];
    const Chain chain = arm(7);
    int n_all = 0;
    for (int i = 0; i < 5; ++i) {
        const Task task = reachable(chain, 0.05 * i, q);
        const std::vector<double> rows = spread_from<7>(chain, task, q, {0.3, 0.01, 1}, 150);
        const int n = int(rows.size()) / 7;
        claim_solutions(chain, task, rows.data(), n, "gaps");
        for (int a = 0; a < n; ++a) {
            for (int b = 0; b < a; ++b) {
                double most = 0.0;  // largest difference in any joint
                for (int j = 0; j < 7; ++j) {
                    const double x = rows[std::size_t(7 * a + j)], y = rows[std::size_t(7 * b + j)];
                    most = std::max(most, std::abs(difference(x, y, task.bounds.wraps[j])));
                }
                claim(most > 0.0099, "twins");
            }
        }
        n_all += n;
    }
    claim(n_all > 300, "self-motions are long enough for " + std::to_string(n_all));
}

CHECK(configurations_between_places_follow_a_curve_in_both_directions_from_its_root) {
    Bounds<double> bounds{};
    for (int j = 0; j < 2; ++j) bounds.lower[j] = -2.0, bounds.upper[j] = 2.0;
    for (const double way : {1.0, -1.0}) {
        Trace trace(2);  // two steps on the unit circle, with tangents as long as a step
        for (int i = 0; i < 3; ++i) {
            const double step = 0.5, angle = way * step * i, place[2] = {std::cos(angle), std::sin(angle)};
            trace.add(place, i - 1, true);
            const double towards = i == 0 ? step : way * step;  // the root has the same tangent for both directions
            trace.tangent(i)[0] = -towards * place[1], trace.tangent(i)[1] = towards * place[0];
        }
        const Configurations found = between(bounds, trace, 0.05, 100);
        claim(found.size() >= 10, "the steps are divided");
        for (Index i = 0; i < found.size(); ++i) {
            agree(std::hypot(found.row(i)[0], found.row(i)[1]), 1.0, 5e-4, "radius");  // the cubic has an error of 2e-4
        }
    }
}

CHECK(manifolds_are_grown_over) {
    for_arms([]<int N>(const Chain& chain) {
        double q[kMostJoints];
        if (chain.n_joints < 6) return;
        const Task task = reachable(chain, 0.25, q, true);
        const ContinuationOptions spread{0.5, -1.0, chain.n_joints - 3};
        const std::vector<double> rows = spread_from<N>(chain, task, q, spread, 120);
        const int n = int(rows.size()) / chain.n_joints;
        claim(n == 120, "a manifold of three and more dimensions holds " + std::to_string(n));
        claim_solutions(chain, task, rows.data(), n, "manifold");
        for (int a = 0; a < n; ++a) {
            for (int b = 0; b < a; ++b) {
                const double away = apart(task, &rows[std::size_t(a * chain.n_joints)],
                                          &rows[std::size_t(b * chain.n_joints)], chain.n_joints);
                claim(away > kSpacing * spread.step - 1e-5, "spacing");
            }
        }
    });
}

CHECK(directions_of_the_null_space_leave_the_pose) {
    for_arms([]<int N>(const Chain& chain) {
        double q[kMostJoints], direction[kMostJoints], tangent[kMostJoints];
        const Task task = reachable(chain, 0.25, q, true);
        Kinematics<double, N> at;
        forward<N>(chain, q, at);
        differentiate<N>(chain, at);
        Random random(0.1);
        for (int j = 0; j < chain.n_joints; ++j) direction[j] = random.uniform(-1.0, 1.0);
        const bool has_any = project<N>(chain, task, at.jacobian, q, direction, tangent);
        claim(has_any == (chain.n_joints > 3), "a self-motion where there are more joints than coordinates");
        if (!has_any) return;
        double length = 0.0, moved[3] = {};
        for (int j = 0; j < chain.n_joints; ++j) {
            length += tangent[j] * tangent[j];
            for (int k = 0; k < 3; ++k) moved[k] += at.jacobian[j][k] * tangent[j];
        }
        agree(length, 1.0, 1e-12, "unit length");
        for (double speed : moved) agree(speed, 0.0, 1e-6, "the tip stands still");  // the damping causes a small error
    });
}

// Descends from solutions, and returns their final costs.
template <int N>
static std::vector<double> descended(const Chain& chain, const Task& task, const Cost& cost, std::vector<double> rows) {
    Descent<N> descent(chain, task, cost);
    std::vector<double> costs;
    for (std::size_t i = 0; i < rows.size(); i += std::size_t(chain.n_joints)) {
        const double before = cost(&rows[i]);
        descent.run(&rows[i]);
        claim(cost(&rows[i]) <= before, "the cost rises");
        costs.push_back(cost(&rows[i]));
    }
    claim_solutions(chain, task, rows.data(), int(costs.size()), "descent");
    return costs;
}

CHECK(descent_never_rises_and_ends_at_the_same_cost_for_any_number_of_joints) {
    const Chain chain = arm(7);
    const double preferred[7] = {0.1, -0.2, 0.3, 0.0, 0.5, 0.0, -0.4}, weights[7] = {1, 1, 0.5, 1, 0, 1, 1};
    const bool turns[7] = {true};
    const Cost cost{preferred, weights, turns, 7};
    int n_same = 0, n = 0, n_lower = 0;
    for (int i = 0; i < 5; ++i) {
        double q[kMostJoints];
        const Task task = reachable(chain, 0.05 * i, q);
        const std::vector<double> rows = spread_from<7>(chain, task, q, {0.5, -1.0, 1}, 10);
        const std::vector<double> fixed = descended<7>(chain, task, cost, rows),
                                  any_number = descended<0>(chain, task, cost, rows);
        for (std::size_t k = 0; k < fixed.size(); ++k) {
            n_same += std::abs(fixed[k] - any_number[k]) < 1e-6, ++n;
            n_lower += fixed[k] < cost(&rows[7 * k]) - 1e-3;
        }
    }
    claim(n_same >= 0.9 * n, std::to_string(n_same) + " of " + std::to_string(n) + " end at the same cost");
    claim(n_lower > n / 2, "most are moved");
}

CHECK(descent_of_an_arm_without_self_motion_moves_nothing) {
    const Chain chain = arm(6);
    double q[kMostJoints];
    const Task task = reachable(chain, 0.25, q);
    const double preferred[6] = {}, weights[6] = {1, 1, 1, 1, 1, 1};
    const bool turns[6] = {};
    const Cost cost{preferred, weights, turns, 6};
    Descent<6> descent(chain, task, cost);
    double moved[6];
    std::copy_n(q, 6, moved);
    descent.run(moved);
    for (int j = 0; j < 6; ++j) agree(moved[j], q[j], 1e-4, "joint");
}

CHECK(rounds_keep_solutions_only) {
    for_arms([]<int N>(const Chain& chain) {
        const int d = chain.n_joints;
        const std::size_t size = std::size_t(d);
        const std::vector<double> log_weight = {0.0}, context = {1.0}, weights(size, 0.1), biases(size, 0.0);
        std::vector<double> lower(size * size, 0.0);
        for (std::size_t a = 0; a < size; ++a) lower[a * size + a] = 1.0;
        const Experts experts(1, d, 1, 1, weights.data(), biases.data(), lower.data());
        const Mixture mixture{experts, 1, log_weight.data(), context.data()};
        const bool turns[kMostJoints] = {true};
        double q[kMostJoints];
        const Task task = reachable(chain, 0.25, q);
        for (const double tolerance : {-1.0, 0.01}) {
            Found found(d);
            SearchRound round{40,      40, 1.0, tolerance,
                              false,   1,  100, {0.45, std::max(tolerance, 0.001), std::max(d - 6, 0)},
                              kEffort, 0.5};
            for (int i = 0; i < 3; ++i, round.seed += 0.1, round.has_continued = true) {
                const int before = found.size();
                Configurations given{d};
                if (i == 0) given.add(q);
                search_round<N>(chain, task, mixture, round, given, turns, found);
                claim(found.size() >= before && found.n_seeded >= before && found.n_seeded <= found.size(),
                      "rows are added");
                claim(int(found.rows.positions.size()) == found.size() * d && int(found.experts.size()) == found.size(),
                      "sizes");
            }
            claim(found.size() > 0, "the given seed is a solution");
            claim_solutions(chain, task, found.rows.row(0), found.size(), "a round");
            for (std::uint32_t expert : found.experts) claim(expert == 0 || expert == kNoExpert, "experts");
        }
    });
}

CHECK(rounds_that_find_nothing_keep_the_best_attempt) {
    for_arms([]<int N>(const Chain& chain) {
        Task task = reachable(chain, 0.25);
        task.target[0][3] = 50.0;
        Found found(chain.n_joints);
        const SearchRound round{40, 0, 1.0, -1.0, false, 1, 0, {0.45, -1.0, 1}, kEffort, 0.5};
        const bool turns[kMostJoints] = {};
        const Experts none(0, chain.n_joints, 0, 1, nullptr, nullptr, nullptr);
        search_round<N>(chain, task, {none, 1, nullptr, nullptr}, round, {chain.n_joints}, turns, found);
        claim(found.size() == 0 && is_inside(task.bounds, found.best.data(), chain.n_joints), "nothing found");
        claim(found.best_error * chain.unit > 30.0 && found.best_error * chain.unit < 60.0, "the best attempt");
    });
}
