// Checks of limits: joints stop at their limits, steps end within the limits, and angles are wrapped.
#include "chain/step.hpp"
#include "checks.hpp"

using namespace eim;

CHECK(joints_at_a_limit_are_held_if_pushed_outwards) {
    for_values([]<class V>() {
        using S = Scalar<V>;
        const Chain chain = arm(7);
        const Task task = reachable(chain, 0.2);
        const Bounds<S>& bounds = task.bounds_in<S>();
        Random random(0.8);
        for (int i = 0; i < 50; ++i) {
            V q[7], jacobian[7][6], held[7][6], e[1][6];
            random_jacobian(random, 7, jacobian), random_jacobian(random, 1, e);
            std::copy_n(&jacobian[0][0], 42, &held[0][0]);
            for (int j = 0; j < 7; ++j) {
                for (int lane = 0; lane < kLanes<V>; ++lane) {
                    const double where = random.uniform();
                    set(q[j], lane, where < 0.3 ? bounds.lower[j] : where < 0.6 ? bounds.upper[j] : S(0.1));
                }
            }
            hold_at_limits<7>(chain, bounds, q, e[0], held);
            for (int j = 0; j < 7; ++j) {
                for (int lane = 0; lane < kLanes<V>; ++lane) {
                    double push = 0.0;
                    for (int k = 0; k < 6; ++k) push += double(get(jacobian[j][k], lane)) * double(get(e[0][k], lane));
                    if (std::abs(push) < 1e-4) continue;  // rounding determines the sign
                    const S value = get(q[j], lane);
                    const bool outward = push < 0.0 ? value == bounds.lower[j] : value == bounds.upper[j];
                    for (int k = 0; k < 6; ++k) {
                        const S expected = outward && !bounds.wraps[j] ? S(0) : get(jacobian[j][k], lane);
                        claim(get(held[j][k], lane) == expected, "joint " + std::to_string(j));
                    }
                }
            }
        }
    });
}

CHECK(moves_end_within_the_limits) {
    for_arms([]<int N>(const Chain& chain) {
        for_values([&]<class V>() {
            using S = Scalar<V>;
            const Task task = reachable(chain, 0.2);
            const Bounds<S>& bounds = task.bounds_in<S>();
            Random random(0.9);
            V q[kJoints<N>], before[kJoints<N>], jacobian[kJoints<N>][6], y[1][6];
            for (int i = 0; i < 50; ++i) {
                random_jacobian(random, chain.n_joints, jacobian), random_jacobian(random, 1, y);
                for (int j = 0; j < chain.n_joints; ++j) {
                    for (int lane = 0; lane < kLanes<V>; ++lane) set(q[j], lane, S(random.uniform(-2.0, 2.0)));
                    before[j] = q[j];
                }
                move<N>(chain, bounds, jacobian, y[0], q);
                for (int j = 0; j < chain.n_joints; ++j) {
                    for (int lane = 0; lane < kLanes<V>; ++lane) {
                        double to = get(before[j], lane);
                        for (int k = 0; k < 6; ++k)
                            to += double(get(jacobian[j][k], lane)) * double(get(y[0][k], lane));
                        const S ours = get(q[j], lane);
                        claim(ours >= bounds.lower[j] && ours <= bounds.upper[j], "within");
                        const double expected =
                            bounds.wraps[j] ? std::remainder(to, kTwoPi) : std::clamp(to, -2.0, 2.0);
                        agree(std::remainder(ours - expected, kTwoPi), 0.0, kRounding<V>, "where the step leads");
                    }
                }
            }
        });
    });
}

CHECK(angles_are_wrapped_to_less_than_half_a_turn) {
    for_values([]<class V>() {
        using S = Scalar<V>;
        const Task task = reachable(arm(2), 0.2);
        const Bounds<S>& bounds = task.bounds_in<S>();
        for (double value : {-kPi, kPi, 3 * kPi, -5 * kPi, 7.0, 100.0, 0.0, -3.0, 1e5, 1e30, -1e30}) {
            const S ours = get(within(bounds, 0, fill<V>(S(value))), 0);
            claim(ours >= S(-kPi) && ours < S(kPi), "from -pi to below pi");
            if (std::abs(value) > 1e3) continue;
            const double off = std::remainder(ours - value, kTwoPi);  // the tolerances below are for values up to 100
            agree(off, 0.0, std::is_same_v<S, double> ? 1e-13 : 1e-4, "the same angle");
        }
        claim(std::isnan(get(within(bounds, 0, fill<V>(S(NAN))), 0)), "what is not a number stays so on a circle");
        claim(std::isnan(get(within(bounds, 1, fill<V>(S(NAN))), 0)), "what is not a number stays so between limits");
        const double nan[2] = {0.0, NAN}, edge[2] = {-kPi, 2.0};
        claim(!is_inside(task.bounds, nan, 2) && is_inside(task.bounds, edge, 2), "limits are inside, NaN is not");
    });
}
