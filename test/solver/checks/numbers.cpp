// Checks of numbers and packs, of trigonometry, and of random numbers.
#include "checks.hpp"
#include "numerics/intervals.hpp"
#include "numerics/mixture.hpp"
#include "numerics/trigonometry.hpp"

using namespace eim;

// Checks sine and cosine at a different value in each lane.
template <class V>
static void check_sines(double scale, double tolerance) {
    Random random(0.25);
    const double special[] = {0.0, kPi / 4, -kPi / 4, kPi / 2, kPi, -kPi, 1.5 * kPi, 1e-300};
    for (int i = 0; i < 2000; ++i) {
        V x{};
        for (int lane = 0; lane < kLanes<V>; ++lane) {
            const double value = i < 8 ? special[(i + lane) % 8] : random.uniform(-scale, scale);
            set(x, lane, Scalar<V>(value));
        }
        const SineCosine<V> ours = sine_and_cosine(x);
        for (int lane = 0; lane < kLanes<V>; ++lane) {
            const long double value = get(x, lane);
            agree(get(ours.sine, lane), double(std::sin(value)), tolerance, "sine at scale " + std::to_string(scale));
            agree(get(ours.cosine, lane), double(std::cos(value)), tolerance,
                  "cosine at scale " + std::to_string(scale));
        }
    }
}

CHECK(sines_and_cosines_agree_with_libm) {
    for (double scale : {1.0, kPi, 100.0, 1e5, 1e6}) {
        check_sines<double>(scale, 2.3e-16), check_sines<WideDouble>(scale, 2.3e-16);
    }
    for (double scale : {1.0, kPi, 50.0}) check_sines<float>(scale, 0x1p-22), check_sines<WideFloat>(scale, 0x1p-22);
}

CHECK(sines_of_what_is_not_finite_are_not_numbers_and_leave_other_lanes_alone) {
    for_values([]<class V>() {
        for (double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
            V x{};
            set(x, kLanes<V> - 1, Scalar<V>(bad));
            const SineCosine<V> ours = sine_and_cosine(x);
            claim(std::isnan(get(ours.sine, kLanes<V> - 1)), "a sine of what is not finite");
            claim(std::isnan(get(ours.cosine, kLanes<V> - 1)), "a cosine of what is not finite");
            for (int lane = 0; lane + 1 < kLanes<V>; ++lane) {
                claim(get(ours.sine, lane) == 0 && get(ours.cosine, lane) == 1, "another lane changed");
            }
        }
    });
}

CHECK(angle_is_exact_from_zero_to_half_a_turn) {
    const double angles[] = {0.0, 1e-13, 1e-7, 1e-3, 0.5, kPi / 4, 1.0, kPi / 2, 2.0, 3.0, kPi - 1e-7, kPi};
    for_values([&]<class V>() {
        constexpr bool is_double = std::is_same_v<Scalar<V>, double>;
        for (double size : {1e-3, 1.0, 30.0}) {
            for (int i = 0; i < 12; ++i) {
                V s{}, c{};
                for (int lane = 0; lane < kLanes<V>; ++lane) {
                    const double angle = angles[(i + lane) % 12];
                    set(s, lane, Scalar<V>(size * std::sin(angle))), set(c, lane, Scalar<V>(size * std::cos(angle)));
                }
                const V ours = angle_of(s, c);
                // single precision uses an estimate with an error of 1e-5
                for (int lane = 0; lane < kLanes<V>; ++lane) {
                    const double expected = std::atan2(double(get(s, lane)), double(get(c, lane)));
                    agree(get(ours, lane), expected, is_double ? 1e-15 : 1.5e-5, "angle");
                }
            }
        }
    });
}

CHECK(angle_of_what_is_not_a_number_is_not_a_number) {
    for_values([]<class V>() {
        const V nan = fill<V>(std::numeric_limits<Scalar<V>>::quiet_NaN());
        const V ours = angle_of(nan, nan);
        for (int lane = 0; lane < kLanes<V>; ++lane) claim(std::isnan(get(ours, lane)), "an angle");
    });
}

CHECK(packs_do_what_numbers_do) {
    for_values([]<class V>() {
        using S = Scalar<V>;
        Random random(0.5);
        for (int i = 0; i < 200; ++i) {
            V a{}, b{};
            for (int lane = 0; lane < kLanes<V>; ++lane) {
                set(a, lane, S(random.uniform(-9.0, 9.0))), set(b, lane, S(random.uniform(-9.0, 9.0)));
            }
            const V least = smaller(a, b), most = larger(a, b), size = absolute(a), root = square_root(size);
            const V whole = nearest(a), turned = wrapped(a, S(kTwoPi), S(1.0 / kTwoPi)),
                    straight = wrapped(a, S(0), S(1));
            for (int lane = 0; lane < kLanes<V>; ++lane) {
                const S x = get(a, lane), y = get(b, lane);
                claim(get(least, lane) == std::min(x, y) && get(most, lane) == std::max(x, y),
                      "the smaller, the larger");
                claim(get(size, lane) == std::abs(x) && get(root, lane) == std::sqrt(std::abs(x)), "size, root");
                claim(get(whole, lane) == std::nearbyint(x) && get(straight, lane) == x, "the nearest whole number");
                agree(get(turned, lane), std::remainder(double(x), kTwoPi), kRounding<V>, "a difference of angles");
            }
        }
    });
}

CHECK(masks_tell_lanes_apart) {
    for_values([]<class V>() {
        for (int lane = 0; lane < kLanes<V>; ++lane) {
            V v{};
            set(v, lane, Scalar<V>(1));
            const auto mask = v > Scalar<V>(0);
            claim(any(mask) && !any(v < Scalar<V>(0)), "any lane");
            for (int other = 0; other < kLanes<V>; ++other) claim(get_mask(mask, other) == (other == lane), "one lane");
        }
    });
}

CHECK(falling_exponential_is_the_exponential) {
    for (int i = 0; i <= 2000; ++i) {
        const double x = -(kNegligible - 0.1) * i / 2000.0;
        agree(falling_exp(x) / std::exp(x), 1.0, 1e-12, "exp");
        const WideDouble ours = falling_exp(fill<WideDouble>(x));
        agree(ours[kLanes<WideDouble> - 1] / falling_exp(x), 1.0, 1e-14, "a pack's exp");
    }
    for (double x : {-kNegligible, -1e3, -HUGE_VAL}) claim(falling_exp(x) == 0.0, "what is negligible is 0");
    for (int n : {0, 1, 3, 8, 13}) {
        std::vector<double> values(n);
        for (int i = 0; i < n; ++i) values[i] = 2.0 - i;
        exponentiate(values.data(), n, 2.0, 0.5);
        for (int i = 0; i < n; ++i) agree(values[i], std::exp(-0.5 * i), 1e-12, "many at once");
    }
}

CHECK(uniform_numbers_are_uniform_and_the_same_for_the_same_seed) {
    Random random(0.125), again(0.125);
    int counts[20] = {};
    for (int i = 0; i < 20000; ++i) {
        const double value = random.uniform();
        claim(value >= 0.0 && value < 1.0 && value == again.uniform(), "from 0 to below 1, and repeated");
        ++counts[int(20 * value)];
    }
    double chi_squared = 0.0;
    for (int count : counts) chi_squared += (count - 1000) * (count - 1000) / 1000.0;
    claim(chi_squared < 43.8, "chi-squared with 19 degrees of freedom: exceeded once in a thousand");
}

CHECK(normal_numbers_are_normal_however_many_at_once) {
    Random random(0.375);
    std::vector<double> values(20001);
    random.fill_normal(values.data(), std::ptrdiff_t(values.size()));
    double before = values[0], product = 0.0;
    for (double value : values) product += value * before, before = value;
    claim(std::abs(product) / double(values.size()) < 0.02, "successive numbers are related");
    std::sort(values.begin(), values.end());
    double distance = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double below = 0.5 * std::erfc(-values[i] / std::sqrt(2.0));
        distance = std::max(
            {distance, below - double(i) / double(values.size()), double(i + 1) / double(values.size()) - below});
    }
    claim(distance * std::sqrt(double(values.size())) < 1.95, "Kolmogorov's statistic: exceeded once in a thousand");
    for (int n : {0, 1, 2, 3}) {  // elements after the first n must not be written
        double some[4] = {7.0, 7.0, 7.0, 7.0};
        random.fill_normal(some, n);
        for (int i = 0; i < 4; ++i) claim((some[i] == 7.0) == (i >= n), "as many as asked for");
    }
}

// Checks products of two linear functions of the cell, a + b t and c + d t, in each lane.
template <class V>
static void check_products() {
    Random random(0.75);
    const auto draw = [&](double size) {
        V x{};
        for (int lane = 0; lane < kLanes<V>; ++lane) set(x, lane, random.uniform(-size, size));
        return x;
    };
    for (int i = 0; i < 1000; ++i) {
        const V zero{}, a = draw(1.0), b = draw(i % 2 ? 1.0 : 10.0), c = draw(1.0), d = draw(1.0);
        const EnclosedOf<V> f{a, zero, b, zero, absolute(b)}, g{c, zero, d, zero, absolute(d)}, product = f * g;
        for (int lane = 0; lane < kLanes<V>; ++lane) {
            const double value = get(product.value, lane), slope = get(product.slope, lane);
            for (double t = -1.0; t <= 1.0; t += 0.25) {
                const double at = (get(a, lane) + get(b, lane) * t) * (get(c, lane) + get(d, lane) * t);
                const double rise =
                    get(a, lane) * get(d, lane) + get(b, lane) * get(c, lane) + 2.0 * get(b, lane) * get(d, lane) * t;
                claim(std::abs(at - value) <= get(product.radius, lane) + 1e-13, "a value");
                claim(std::abs(rise - slope) <= get(product.spread, lane) + 1e-13, "a slope");
            }
        }
    }
}

// Checks weighted sums, and sums of products. Values and slopes must agree with separate additions up to rounding, and
// bounds must contain all values. Except for the radii of sums of products, bounds must not be wider than the bounds of
// separate additions.
template <class V>
static void check_sums() {
    Random random(0.35);
    const auto draw = [&] {
        V value{}, slope{};
        for (int lane = 0; lane < kLanes<V>; ++lane) {
            set(value, lane, random.uniform(-1.0, 1.0)), set(slope, lane, random.uniform(-1.0, 1.0));
        }
        return EnclosedOf<V>{value, V{}, slope, V{}, absolute(slope)};
    };
    for (int i = 0; i < 1000; ++i) {
        const EnclosedOf<V> a = draw(), b = draw(), c = draw(), d = draw();
        const double f = random.uniform(-2.0, 2.0), g = random.uniform(-2.0, 2.0), h = random.uniform(-2.0, 2.0);
        const EnclosedOf<V> ours[] = {linear(a, f, b, g, h, 1e-9), products(a, b, c, d)};
        const EnclosedOf<V> singly[] = {(a * f + b * g) + h, a * b + c * d};
        for (int k = 0; k < 2; ++k) {
            for (int lane = 0; lane < kLanes<V>; ++lane) {
                const auto of = [&](const V& x) { return get(x, lane); };
                agree(of(ours[k].value), of(singly[k].value), 1e-14, "the value");
                agree(of(ours[k].slope), of(singly[k].slope), 1e-14, "the slope");
                claim(k == 1 || of(ours[k].radius) <= of(singly[k].radius) + 1.1e-9, "the radius is no wider");
                claim(of(ours[k].spread) <= of(singly[k].spread) + 1e-13, "the spread is no wider");
                claim(of(ours[k].error) >= (k == 0 ? 1e-9 : 0.0), "the error of the constant counts");
                for (double t = -1.0; t <= 1.0; t += 0.25) {
                    const auto at = [&](const EnclosedOf<V>& x) { return of(x.value) + of(x.slope) * t; };
                    const double sum = k == 0 ? at(a) * f + at(b) * g + h : at(a) * at(b) + at(c) * at(d);
                    claim(std::abs(sum - of(ours[k].value)) <= of(ours[k].radius), "a value of a sum");
                }
            }
        }
    }
}

CHECK(bounds_of_sums_hold_all_over_the_cell) {
    check_sums<double>(), check_sums<WideDouble>();
}

CHECK(bounds_of_a_product_hold_all_over_the_cell) {
    check_products<double>(), check_products<WideDouble>();
}
