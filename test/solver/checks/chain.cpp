// Checks of kinematics, errors and steps. A single configuration must agree with a pack, and the templates for 6 and 7
// joints must agree with the template for any number of joints.
#include "chain/step.hpp"
#include "checks.hpp"

using namespace eim;

// Calls check(N, V, chain, task, q in lanes, its Jacobian and tip) for all arms and all types of numbers.
template <class Check>
static void for_configurations(Check check) {
    for_arms([&]<int N>(const Chain& chain) {
        for_values([&]<class V>() {
            const Task task = reachable(chain, 0.2);
            Random random(0.4);
            for (int i = 0; i < 5; ++i) {
                V q[kJoints<N>];
                Kinematics<V, N> at;
                double row[kMostJoints];
                for (int lane = 0; lane < kLanes<V>; ++lane) {
                    uniform_in(task, chain.n_joints, random, row);
                    for (int j = 0; j < chain.n_joints; ++j) set(q[j], lane, Scalar<V>(row[j]));
                }
                forward<N>(chain, q, at);
                differentiate<N>(chain, at);
                check.template operator()<N, V>(chain, task, q, at);
            }
        });
    });
}

// Returns the kinematics of one lane, computed in double precision by the template for any chain.
template <class V>
static Kinematics<double, 0> plainly(const Chain& chain, const V* q, int lane) {
    Kinematics<double, 0> at;
    double row[kMostJoints];
    for (int j = 0; j < chain.n_joints; ++j) row[j] = get(q[j], lane);
    forward<0>(chain, row, at);
    differentiate<0>(chain, at);
    return at;
}

CHECK(forward_kinematics_agree) {
    for_configurations([]<int N, class V>(const Chain& chain, const Task&, const V* q, const Kinematics<V, N>& at) {
        for (int lane = 0; lane < kLanes<V>; ++lane) {
            const Kinematics<double, 0> plain = plainly(chain, q, lane);
            const Frame<Scalar<V>> tip = lane_of(at.tip, lane);
            for (int k = 0; k < 3; ++k) {
                agree(tip.x[k], plain.tip.x[k], kRounding<V>, "x axis"),
                    agree(tip.y[k], plain.tip.y[k], kRounding<V>, "y axis");
                agree(tip.z[k], plain.tip.z[k], kRounding<V>, "z axis");
                agree(tip.origin[k], plain.tip.origin[k], kRounding<V>, "tip");
                for (int i = 0; i < chain.n_links; ++i) {
                    agree(get(at.origin[i][k], lane), plain.origin[i][k], kRounding<V>, "a joint's origin");
                    agree(get(at.axis[i][k], lane), plain.axis[i][k], kRounding<V>, "a joint's axis");
                }
            }
        }
    });
}

CHECK(jacobians_agree) {
    for_configurations([]<int N, class V>(const Chain& chain, const Task&, const V* q, const Kinematics<V, N>& at) {
        for (int lane = 0; lane < kLanes<V>; ++lane) {
            const Kinematics<double, 0> plain = plainly(chain, q, lane);
            for (int j = 0; j < chain.n_joints; ++j) {
                for (int k = 0; k < 6; ++k) {
                    agree(get(at.jacobian[j][k], lane), plain.jacobian[j][k], kRounding<V>, "Jacobian");
                }
            }
        }
    });
}

CHECK(jacobian_is_the_derivative_of_forward_kinematics) {
    for_arms([]<int N>(const Chain& chain) {
        double q[kMostJoints], moved[kJoints<N>];
        const Task task = reachable(chain, 0.6, q);
        Kinematics<double, N> at, there;
        forward<N>(chain, q, at);
        differentiate<N>(chain, at);
        for (int j = 0; j < chain.n_joints; ++j) {
            std::copy_n(q, chain.n_joints, moved);
            moved[j] += 1e-6;
            Difference<double> change;
            forward<N>(chain, moved, there);
            pose_difference(at.tip, there.tip, false, change);
            // forward differences have an error of the step times the curvature, which is about 1
            for (int k = 0; k < 6; ++k) agree(change.vector[k] / 1e-6, at.jacobian[j][k], 1e-5, "derivative");
        }
        claim(task.target[0][3] == at.tip.origin[0] || N != 0, "the pose is that of q");
    });
}

CHECK(errors_agree) {
    for_configurations([]<int N, class V>(const Chain&, const Task& task, const V*, const Kinematics<V, N>& at) {
        for (bool position_only : {false, true}) {
            Difference<V> ours;
            Difference<double> plain;
            pose_difference(at.tip, target_of<V>(task), position_only, ours);
            for (int lane = 0; lane < kLanes<V>; ++lane) {
                const Frame<Scalar<V>> tip = lane_of(at.tip, lane);
                Frame<double> wide;
                for (int k = 0; k < 3; ++k) {
                    wide.x[k] = tip.x[k], wide.y[k] = tip.y[k], wide.z[k] = tip.z[k], wide.origin[k] = tip.origin[k];
                }
                pose_difference(wide, target_of<double>(task), position_only, plain);
                // near pi, rounding errors determine the direction of the rotation vector
                if (plain.angle > 3.1) continue;
                for (int k = 0; k < 6; ++k)
                    agree(get(ours.vector[k], lane), plain.vector[k], 50 * kRounding<V>, "error");
                agree(get(ours.distance, lane), plain.distance, kRounding<V>, "distance");
                agree(get(ours.angle, lane), plain.angle, kRounding<V>, "angle");
            }
        }
    });
}

CHECK(errors_beyond_tolerances_and_their_jacobians_agree) {
    const double infinite = std::numeric_limits<double>::infinity();
    const double all_tolerances[][6] = {{0, 0, 0, 0, 0, infinite},
                                        {0.05, 0, 0.01, 0.3, 0.1, 0.2},
                                        {0, 0, 0, 0, 0, 0},
                                        {infinite, 0.1, 0, infinite, infinite, infinite}};
    for_configurations(
        [&]<int N, class V>(const Chain& chain, const Task& wanted, const V*, const Kinematics<V, N>& at) {
            using S = Scalar<V>;
            for (const double (&tolerances)[6] : all_tolerances) {
                Task task = wanted;
                task.has_tolerances = true;
                std::copy_n(tolerances, 6, task.tolerances);
                const Frame<V> target = target_of<V>(task);
                Difference<V> ours;
                V jacobian[kJoints<N>][6];
                std::copy_n(&at.jacobian[0][0], 6 * chain.n_joints, &jacobian[0][0]);
                measure(at.tip, target, task, ours);
                turn_rows(target, task.tolerances, ours, chain.n_joints, jacobian);
                for (int lane = 0; lane < kLanes<V>; ++lane) {
                    Difference<S> plain;
                    S rows[kJoints<N>][6];
                    for (int j = 0; j < chain.n_joints; ++j) {
                        for (int k = 0; k < 6; ++k) rows[j][k] = get(at.jacobian[j][k], lane);
                    }
                    beyond_tolerances(lane_of(at.tip, lane), lane_of(target, lane), task.tolerances, plain);
                    turn_rows(lane_of(target, lane), task.tolerances, plain, chain.n_joints, rows);
                    for (int k = 0; k < 6; ++k)
                        agree(get(ours.vector[k], lane), plain.vector[k], kRounding<V>, "error");
                    agree(get(ours.distance, lane), plain.distance, kRounding<V>, "distance");
                    agree(get(ours.angle, lane), plain.angle, kRounding<V>, "angle");
                    for (int j = 0; j < chain.n_joints; ++j) {
                        for (int k = 0; k < 6; ++k)
                            agree(get(jacobian[j][k], lane), rows[j][k], kRounding<V>, "row of the Jacobian");
                    }
                }
            }
        });
}

// Returns the solution of A y = e, computed by elimination with pivoting.
static std::vector<long double> eliminated(std::vector<std::vector<long double>> a, std::vector<long double> e) {
    const std::size_t n = e.size();
    for (std::size_t c = 0; c < n; ++c) {
        std::size_t best = c;
        for (std::size_t r = c; r < n; ++r) best = std::abs(a[r][c]) > std::abs(a[best][c]) ? r : best;
        std::swap(a[c], a[best]), std::swap(e[c], e[best]);
        for (std::size_t r = 0; r < n; ++r) {
            if (r == c) continue;
            const long double factor = a[r][c] / a[c][c];
            for (std::size_t k = c; k < n; ++k) a[r][k] -= factor * a[c][k];
            e[r] -= factor * e[c];
        }
    }
    for (std::size_t c = 0; c < n; ++c) e[c] /= a[c][c];
    return e;
}

CHECK(damped_system_is_solved) {
    for_values([]<class V>() {
        constexpr bool is_double = std::is_same_v<Scalar<V>, double>;
        for (int n_joints : {1, 3, 7, 20}) {
            const Chain chain = arm(n_joints);
            for (bool position_only : {false, true}) {
                for (double damping : {1e-4, 1e-2, 1.0}) {
                    if (!is_double && damping < 1e-2) continue;  // a condition number of 1e6 leaves no correct digits
                    Random random(0.5);
                    const std::size_t n = position_only ? 3 : 6;
                    V jacobian[kMostJoints][6], e[1][6], y[6];
                    random_jacobian(random, n_joints, jacobian), random_jacobian(random, 1, e);
                    const V damp = fill<V>(Scalar<V>(damping));
                    solve(factorised<0>(chain, jacobian, position_only, damp), e[0], y);
                    V fixed[6];
                    if (n_joints == 7) solve(factorised<7>(chain, jacobian, position_only, damp), e[0], fixed);
                    for (int lane = 0; lane < kLanes<V>; ++lane) {
                        std::vector<std::vector<long double>> a(n, std::vector<long double>(n));
                        std::vector<long double> right(n);
                        for (std::size_t r = 0; r < n; ++r) {
                            right[r] = get(e[0][r], lane);
                            for (std::size_t c = 0; c < n; ++c) {
                                a[r][c] = r == c ? get(damp, lane) : Scalar<V>(0);
                                for (int j = 0; j < n_joints; ++j) {
                                    a[r][c] +=
                                        static_cast<long double>(get(jacobian[j][r], lane)) * get(jacobian[j][c], lane);
                                }
                            }
                        }
                        const std::vector<long double> expected = eliminated(a, right);
                        for (std::size_t k = 0; k < 6;
                             ++k) {  // condition number at most 1e6 (double) or 1e3 (float): ten or three digits remain
                            const double value = k < n ? double(expected[k]) : 0.0,
                                         size = std::abs(value) + 1.0 / damping;
                            agree(get(y[k], lane), value, (is_double ? 1e-10 : 3e-3) * size, "solution");
                            if (n_joints == 7)
                                agree(get(fixed[k], lane), value, (is_double ? 1e-10 : 3e-3) * size, "of 7 joints");
                        }
                    }
                }
            }
        }
    });
}

CHECK(system_of_no_joint_that_can_move_has_a_finite_answer) {
    for_values([]<class V>() {
        V jacobian[7][6] = {}, e[6], y[6];
        for (V& entry : e) entry = fill<V>(1);
        solve(factorised<7>(arm(7), jacobian, false, V{}), e, y);
        for (const V& entry : y) {
            for (int lane = 0; lane < kLanes<V>; ++lane) claim(std::isfinite(get(entry, lane)), "finite");
        }
    });
}
