// Checks for arms with six revolute joints: the representation of motions, the resultant and its zeros, and the
// solutions.
#include "general_6r/general_6r.hpp"

#include "checks.hpp"

using namespace eim;

namespace {

Vector random_vector(Random& random) {
    return {random.uniform(-1.0, 1.0), random.uniform(-1.0, 1.0), random.uniform(-1.0, 1.0)};
}

Motion random_motion(Random& random) {
    const Vector axis = random_vector(random);
    const Vector unit = axis * (1.0 / length(axis));
    const double angle = random.uniform(-kPi, kPi);
    Motion motion{{turned({1, 0, 0}, unit, angle), turned({0, 1, 0}, unit, angle), turned({0, 0, 1}, unit, angle)}, {}};
    motion.translation = random_vector(random) * 0.5;
    return motion;
}

LineVector random_line(Random& random) {
    const Vector direction = random_vector(random);
    const Vector l = direction * (1.0 / length(direction)), p = random_vector(random);
    return {l, p, cross(p, l), l * dot(p, p) - p * (2.0 * dot(p, l)), dot(p, l), dot(p, p), 1.0};
}

std::array<double, 15> numbers(const LineVector& x) {
    return {x.l.x, x.l.y, x.l.z, x.p.x, x.p.y, x.p.z, x.m.x, x.m.y, x.m.z, x.h.x, x.h.y, x.h.z, x.pl, x.pp, x.one};
}

void agree_all(const LineVector& ours, const LineVector& expected, const std::string& what) {
    for (int i = 0; i < 15; ++i) agree(numbers(ours)[i], numbers(expected)[i], 1e-13, what);
}

// Returns a random loop that is closed at the configuration q.
Loop random_loop(Random& random, double (&q)[6]) {
    Loop loop;
    Motion all = about_z(0.0);
    for (int i = 0; i < 6; ++i) {
        q[i] = random.uniform(-kPi, kPi);
        all = all * about_z(q[i]);
        loop.links[i] = i < 5 ? random_motion(random) : all.inverse();
        all = all * loop.links[i];
    }
    return loop;
}

// Returns prod_i sin((t - a_i) / 2), computed from values at equidistant angles.
Resultant with_zeros(const std::vector<double>& zeros) {
    Resultant f;
    for (int j = 0; j < kSamples; ++j) {
        const double angle = kTwoPi * j / kSamples;
        double value = 1.0;
        for (double zero : zeros) value *= 2.0 * std::sin(0.5 * (angle - zero));
        for (int k = 0; k <= kDegree; ++k) {
            f.cosine[k] += (k == 0 ? 1.0 : 2.0) / kSamples * value * std::cos(k * angle);
            f.sine[k] += 2.0 / kSamples * value * std::sin(k * angle);
        }
    }
    return f;
}

}  // namespace

CHECK(motions_act_linearly_on_line_vectors) {
    Random random(0.1);
    for (int k = 0; k < 20; ++k) {
        const Motion a = random_motion(random), b = random_motion(random);
        const LineVector x = random_line(random), n = random_line(random);
        agree_all(moved(a * b, x), moved(a, moved(b, x)), "the product of motions");
        const LineVector y = moved(a, x);
        agree_all(y,
                  {y.l, y.p, cross(y.p, y.l), y.l * dot(y.p, y.p) - y.p * (2.0 * dot(y.p, y.l)), dot(y.p, y.l),
                   dot(y.p, y.p), 1.0},
                  "the moved line");
        const auto product = [](const LineVector& u, const LineVector& v) {
            double total = 0.0;
            for (int i = 0; i < 15; ++i) total += numbers(u)[i] * numbers(v)[i];
            return total;
        };
        agree(product(moved_row(a, n), x), product(n, y), 1e-12, "the row vector");
        const double angle = random.uniform(-kPi, kPi), c = std::cos(angle), s = std::sin(angle);
        agree_all(turned_about_z(x, 1.0).at(c, s), moved(about_z(angle), x), "the rotation about z");
        agree_all(turned_about_z(x, -1.0).at(c, s), moved(about_z(-angle), x), "the rotation back");
        agree(turned_product(n, x).at(c, s), product(n, moved(about_z(angle), x)), 1e-13, "the product");
    }
}

CHECK(triangularise_gives_the_determinant) {
    WideDouble m[3][4] = {};
    const double rows[3][4] = {{0, 2, 1, 1}, {3, -1, 4, 2}, {1, 5, -2, 3}};
    for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 4; ++j) m[i][j] = fill<WideDouble>(rows[i][j]);
    }
    agree(triangularise(m)[0], 36.0, 1e-13, "the determinant");
}

CHECK(resultant_vanishes_at_each_solution) {
    Random random(0.2);
    for (int k = 0; k < 20; ++k) {
        double q[6];
        const Loop loop = random_loop(random, q);
        for (int number = 0; number < LoopView<6>::count; ++number) {
            const LoopView<6> view(number);
            const Resultant f{Elimination(view.of(loop))};
            claim(f.noise < 1e-11 * f.amplitude(), "the degree is 8");
            const Resultant::Values v = f.at(view.sign() * q[view.joint(2)]);
            claim(std::abs(v.f) < 1e-9 * f.amplitude(), "the resultant is zero at the solution");
        }
    }
}

CHECK(isolation_finds_each_zero_once) {
    Random random(0.3);
    for (int k = 0; k < 200; ++k) {
        std::vector<double> zeros;
        for (int i = 0; i < 16; ++i) zeros.push_back(random.uniform(-kPi, kPi));
        if (k % 2 == 0) {  // moves the zeros to the edges of cells
            for (double& zero : zeros) zero = kShift + std::round(zero / kPi * kCells) * kPi / kCells;
        }
        std::sort(zeros.begin(), zeros.end());
        zeros.erase(std::unique(zeros.begin(), zeros.end(), [](double a, double b) { return b - a < 0.02; }),
                    zeros.end());
        if (zeros.size() > 1 && zeros.front() + kTwoPi - zeros.back() < 0.02) zeros.pop_back();
        while (zeros.size() % 2 != 0 || zeros.size() > 12) zeros.pop_back();
        const Resultant f = with_zeros(zeros);
        const Isolation isolation({f, 1e-14 * f.amplitude()});
        claim(!isolation.is_unknown, "the number is known");
        agree(isolation.least, double(zeros.size()), 0.0, "the lower bound");
        agree(isolation.most, double(zeros.size()), 0.0, "the upper bound");
        for (double zero : zeros) {
            double nearest = kPi;
            for (int i = 0; i < isolation.n; ++i) {
                nearest = std::min(nearest, std::abs(wrapped_angle(isolation.zeros[i] - zero)));
            }
            agree(nearest, 0.0, 1e-7, "the zero");  // the noise divided by the smallest slope
        }
    }
}

CHECK(isolation_never_counts_too_few_where_zeros_meet) {
    Random random(0.4);
    for (int k = 0; k < 400; ++k) {
        const double gap = std::pow(10.0, random.uniform(-12.0, -1.0)), at = random.uniform(-kPi, kPi);
        std::vector<double> zeros = {at, at + gap};
        for (int i = 0; i < 4; ++i) zeros.push_back(random.uniform(-kPi, kPi));
        const Resultant f = with_zeros(zeros);
        const Isolation isolation({f, 1e-13 * f.amplitude()});
        claim(isolation.is_unknown || isolation.most >= 6, "the upper bound includes both zeros");
        claim(isolation.is_unknown || isolation.least <= 6, "the lower bound");
    }
}

CHECK(error_of_a_rounded_pose_bounds_the_change_of_the_resultant) {
    using Number = DoubledResultant::Number;
    Random random(0.45);
    double largest = 0.0;
    for (int k = 0; k < 10; ++k) {
        double q[6];
        const Loop loop = random_loop(random, q);
        LoopOf<6, Number> doubled;
        for (int i = 0; i < 6; ++i) doubled.links[i] = exact(loop.links[i]);
        for (int number = 0; number < LoopView<6>::count; ++number) {
            const LoopView<6> view(number);
            Resultant shifted[CertainResultant::kShifts];
            for (int i = 0; i < CertainResultant::kShifts; ++i) {
                Loop moved = loop;
                moved.links[5] = loop.links[5] * CertainResultant::shift(i);
                shifted[i] = Resultant(Elimination(view.of(moved)));
            }
            const CertainResultant f(DoubledResultant(EliminationOf<Number>(view.of(doubled))), shifted);
            MotionOf<Number> step = exact(about_z(0.0));
            const double x = random.uniform(-1e-15, 1e-15), y = random.uniform(-1e-15, 1e-15);
            step.rows[0].y = -x, step.rows[1].x = x, step.translation.z = y;  // the squares of x and y are negligible
            LoopOf<6, Number> moved = doubled;
            moved.links[5] = doubled.links[5] * step;
            const CertainResultant g(DoubledResultant(EliminationOf<Number>(view.of(moved))), shifted);
            for (int i = 0; i < 20; ++i) {
                const double angle = random.uniform(-kPi, kPi);
                const CertainResultant::Values v = f.at(angle);
                const double change = std::abs(g.at(angle).f - v.f) - 2e-16 * std::abs(v.f);  // minus rounding of f
                claim(change < f.error(v), "the change is within the error");
                largest = std::max(largest, change / f.error(v));
            }
        }
    }
    claim(largest > 0.01, "the error is not much larger than the change");
}

CHECK(attempts_find_a_configuration_within_their_bound) {
    Random random(0.5);
    int n_settled = 0;
    for (int k = 0; k < 20; ++k) {
        double q[6];
        const Loop loop = random_loop(random, q);
        Motion fixed[5];
        std::copy_n(loop.links, 5, fixed);
        const FixedLinks links(fixed, loop.slides);
        int n_solutions = -1;
        for (int number = 0; number < LoopView<6>::count; ++number) {
            LoopSolutions found;
            const Attempted tried = attempt(links, loop.links[5], number, found);
            claim(tried.is_unknown || found.n <= tried.most, "the bound");
            n_settled += !tried.is_unknown && found.n == tried.most;
            if (tried.is_unknown || found.n != tried.most) continue;
            double nearest = kPi;
            for (int i = 0; i < found.n; ++i) {
                double away = 0.0;
                for (int j = 0; j < 6; ++j) away = std::max(away, std::abs(wrapped_angle(found.angles[i][j] - q[j])));
                nearest = std::min(nearest, away);
            }
            agree(nearest, 0.0, 1e-8, "the nearest solution");
            if (n_solutions < 0) n_solutions = found.n;
            agree(found.n, double(n_solutions), 0.0, "the number of solutions by another elimination");
        }
    }
    claim(n_settled >= 220, "most of 240 attempts settle the number");
}

CHECK(partners_of_a_fold_are_found) {
    Random random(0.6);
    int n_pairs = 0, n_found = 0;
    for (int k = 0; k < 2000; ++k) {
        double q[6];
        const Loop loop = random_loop(random, q);
        Motion fixed[5];
        std::copy_n(loop.links, 5, fixed);
        LoopSolutions all;
        attempt(FixedLinks(fixed, loop.slides), loop.links[5], 0, all);
        for (int i = 0; i < all.n; ++i) {
            for (int j = 0; j < i; ++j) {
                double away = 0.0;
                for (int a = 0; a < 6; ++a) {
                    away = std::max(away, std::abs(wrapped_angle(all.angles[i][a] - all.angles[j][a])));
                }
                if (away > 0.05) continue;
                LoopSolutions one;
                one.add(all.angles[i]);
                add_partners(loop, one);
                ++n_pairs, n_found += one.n == 2;
            }
        }
    }
    claim(n_pairs >= 5 && n_found >= 0.8 * n_pairs, "most partners are found");
}
