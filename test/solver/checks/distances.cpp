// Checks of mixtures and of near-duplicates. Densities must agree with the direct sum, and draws must follow the
// weights. The search for near-duplicates must agree with all distances.
#include "checks.hpp"
#include "numerics/log_density.hpp"
#include "selection/distinctness.hpp"

using namespace eim;

static std::vector<double> uniform(int n, double seed) {
    Random random(seed);
    std::vector<double> values(std::size_t(n), 0.0);
    for (double& value : values) value = random.uniform(-1.0, 1.0);
    return values;
}

// Returns random lower triangular factors (k, d, d). Entries above the diagonal are ignored.
static std::vector<double> factors(int k, int d) {
    std::vector<double> lower = uniform(k * d * d, 0.4);
    for (double* l = lower.data(); l != lower.data() + lower.size(); l += d * d) {
        for (int a = 0; a < d; ++a) {
            for (int b = 0; b < a; ++b) l[a * d + b] /= d;
            l[a * d + a] = 0.3 + std::abs(l[a * d + a]);
        }
    }
    return lower;
}

// A mixture together with its arrays.
struct Owned {
    int n_contexts, k, d;
    Experts experts;
    std::vector<double> log_weights, contexts;

    Owned(int n_contexts, int k, int d, double scale = 1.0)
        : n_contexts(n_contexts),
          k(k),
          d(d),
          experts(k, d, 2, k, uniform(k * d * 2, 0.1).data(), uniform(k * d, 0.2).data(),
                  scaled(factors(k, d), scale).data()),
          log_weights(uniform(n_contexts * k, 0.3)),
          contexts(uniform(n_contexts * 2, 0.7)) {}
    static std::vector<double> scaled(std::vector<double> values, double scale) {
        for (double& value : values) value *= scale;
        return values;
    }
    Mixture mixture() const { return {experts, n_contexts, log_weights.data(), contexts.data()}; }
    // Returns the log of the sum of all terms. Each term is computed from the solution of L z = x - mean.
    double log_density(const double* x) const {
        std::vector<long double> terms;
        for (int c = 0; c < n_contexts * k; ++c) {
            std::vector<double> mean(std::size_t(d), 0.0), z(std::size_t(d), 0.0);
            mixture().mean(c, mean.data());
            const double* l = &experts.scale_trils[std::size_t(c % k * d * d)];
            long double term = log_weights[std::size_t(c)] - 0.5L * d * std::log(kTwoPi);
            for (int a = 0; a < d; ++a) {
                double rest = x[a] - mean[std::size_t(a)];
                for (int b = 0; b < a; ++b) rest -= l[a * d + b] * z[std::size_t(b)];
                z[std::size_t(a)] = rest / l[a * d + a];
                term -= std::log(l[a * d + a]) + 0.5L * z[std::size_t(a)] * z[std::size_t(a)];
            }
            terms.push_back(term);
        }
        const long double top = *std::max_element(terms.begin(), terms.end());
        long double sum = 0.0;
        for (long double term : terms) sum += std::exp(term - top);
        return double(top + std::log(sum));
    }
};

CHECK(log_density_is_the_plain_sum) {
    const int shapes[][3] = {{1, 1, 1}, {4, 5, 2}, {1, 60, 7}, {8, 40, 7}, {2, 3, 6}, {1, 2, 64}};
    for (const auto& [n_contexts, k, d] : shapes) {
        const Owned owned(n_contexts, k, d);
        for (int n : {0, 1, kLanes<WideDouble>, kLanes<WideDouble> + 1, 50}) {
            Random random(0.1);
            std::vector<double> samples(std::size_t(n * d)), ours(std::size_t(n) + 1, 7.0);
            for (double& value : samples) value = 3.0 * random.uniform(-1.0, 1.0);
            const auto check = [&]<int D>() {
                LogDensity<D>(owned.mixture()).run(samples.data(), n, ours.data());
                for (int i = 0; i < n; ++i) {
                    const double expected = owned.log_density(&samples[std::size_t(i * d)]);
                    agree(ours[std::size_t(i)], expected, 1e-12 * (10.0 + std::abs(expected)), "log density");
                }
                claim(ours.back() == 7.0, "no more than n are written");
            };
            check.operator()<0>();
            if (d == 6) check.operator()<6>();
            if (d == 7) check.operator()<7>();
        }
    }
}

CHECK(log_density_far_from_all_experts_is_finite) {
    const Owned owned(2, 5, 3);
    std::vector<double> samples = {1e6, 1e6, 1e6, 0.0, 0.0, 0.0}, ours(2);
    LogDensity<0>(owned.mixture()).run(samples.data(), 2, ours.data());
    for (int i = 0; i < 2; ++i)
        agree(ours[i] / owned.log_density(&samples[std::size_t(3 * i)]), 1.0, 1e-9, "log density");
}

// If experts are narrow and samples are near them, L^-1 (x - mean) is inaccurate in single precision.
CHECK(log_density_of_narrow_experts_is_the_plain_sum) {
    for (const double scale : {1e-2, 1e-4, 1e-6, 1e-9}) {
        const Owned owned(2, 30, 7, scale);
        constexpr int n = 70;
        std::vector<double> samples(n * 7), ours(n);
        std::vector<std::uint32_t> experts(n);
        Random random(0.6);
        draw(owned.mixture(), 1.0, false, n, random, samples.data(), experts.data());
        LogDensity<7>(owned.mixture()).run(samples.data(), n, ours.data());
        for (int i = 0; i < n; ++i) {  // L^-1 x, of size 3, magnifies the rounding error of x by 1 / scale
            const double expected = owned.log_density(&samples[std::size_t(7 * i)]);
            agree(ours[std::size_t(i)], expected, 1e-11 + 1e-14 / scale, "narrow by " + std::to_string(scale));
        }
    }
}

CHECK(log_density_far_from_all_samples_of_a_pack_is_not_lost) {
    const Owned owned(1, 40, 7);  // the first sample is near the experts, and each later one is farther away
    std::vector<double> samples(16 * 7, 0.0), ours(16);
    for (int i = 0; i < 16; ++i) std::fill_n(&samples[std::size_t(7 * i)], 7, i * i * 0.5);
    LogDensity<7>(owned.mixture()).run(samples.data(), 16, ours.data());
    for (int i = 0; i < 16; ++i) {
        const double expected = owned.log_density(&samples[std::size_t(7 * i)]);
        agree(ours[std::size_t(i)], expected, 1e-12 * (10.0 + std::abs(expected)), "log density");
    }
}

CHECK(log_density_of_what_is_no_number_leaves_neighbours_alone) {
    const Owned owned(1, 40, 7);
    std::vector<double> samples = uniform(20 * 7, 0.9), ours(20), with(20);
    LogDensity<7>(owned.mixture()).run(samples.data(), 20, ours.data());
    for (const double bad : {std::nan(""), HUGE_VAL}) {
        samples[7 * 3 + 2] = bad;
        LogDensity<7>(owned.mixture()).run(samples.data(), 20, with.data());
        for (std::size_t i = 0; i < 20; ++i) {
            if (i != 3) agree(with[i], ours[i], 1e-12 * (10.0 + std::abs(ours[i])), "a neighbour");
        }
        claim(std::isnan(bad) ? std::isnan(with[3]) : with[3] == -HUGE_VAL, "no density");
    }
}

CHECK(log_gate_is_a_softmax_over_experts) {
    const double contexts[] = {0.3, -1.0, 2.0, 0.5}, weights[] = {0.1, 0.2, -5.0, 1.0, 0.0, 30.0},
                 biases[] = {0, 1, -1};
    double ours[6];
    log_gate(contexts, 2, 2, weights, biases, 3, ours);
    for (int i = 0; i < 2; ++i) {
        double logits[3], sum = 0.0;
        for (int e = 0; e < 3; ++e) {
            logits[e] = biases[e] + contexts[2 * i] * weights[e] + contexts[2 * i + 1] * weights[3 + e];
            sum += std::exp(logits[e]);
        }
        for (int e = 0; e < 3; ++e) agree(ours[3 * i + e], logits[e] - std::log(2.0 * sum), 1e-12, "log weight");
    }
}

CHECK(draws_follow_the_weights) {
    constexpr int n = 6000, k = 6;
    std::vector<double> samples(2 * n);
    std::vector<std::uint32_t> experts(n);
    for (int n_contexts : {1, 2}) {
        const Owned owned(n_contexts, k, 2);
        double total = 0.0, weights[k] = {};
        for (std::size_t c = 0; c < owned.log_weights.size(); ++c) {
            total += std::exp(owned.log_weights[c]), weights[c % k] += std::exp(owned.log_weights[c]);
        }
        for (bool evenly : {false, true}) {
            Random random(0.9);
            draw(owned.mixture(), 1.0, evenly, n, random, samples.data(), experts.data());
            for (std::uint32_t e = 0; e < k; ++e) {
                const double expected = n * weights[e] / total,
                             count = double(std::count(experts.begin(), experts.end(), e));
                // even draws: a Kronecker sequence has a discrepancy of about log n; other draws: four standard
                // deviations
                agree(count, expected, evenly ? 3.0 * n_contexts : 4.0 * std::sqrt(expected), "draws of an expert");
            }
        }
    }
}

static Bounds<double> two_of_them_wrap() {
    Bounds<double> bounds{};
    bounds.wraps[1] = bounds.wraps[4] = true;
    return bounds;
}

CHECK(places_agree_with_all_distances) {
    for (const Bounds<double>& bounds : {Bounds<double>{}, two_of_them_wrap()}) {
        for (int n_joints : {1, 3, 5, 7}) {
            Random random(0.3);
            Places places(bounds, n_joints);
            std::vector<std::vector<double>> known;
            std::vector<double> place(std::size_t(n_joints), 0.0);
            for (int i = 0; i < 200; ++i) {
                for (double& value : place) value = random.uniform(-kPi, kPi);
                double nearest = HUGE_VAL, least = HUGE_VAL;  // Euclidean distance; largest difference in a joint
                for (const std::vector<double>& other : known) {
                    double square = 0.0, most = 0.0;
                    for (int j = 0; j < n_joints; ++j) {
                        const double away = place[std::size_t(j)] - other[std::size_t(j)];
                        const double round = bounds.wraps[j] ? std::remainder(away, kTwoPi) : away;
                        square += round * round, most = std::max(most, std::abs(round));
                    }
                    nearest = std::min(nearest, std::sqrt(square)), least = std::min(least, most);
                }
                // both answers are correct within 1e-5, because known configurations are stored in single precision
                for (double radius : {0.01, 0.3, 1.0, 3.0}) {
                    const double off = std::abs(nearest - radius), beside = std::abs(least - radius);
                    claim(off < 1e-5 || places.has_near(place.data(), radius) == (nearest < radius), "near in length");
                    claim(beside < 1e-5 || places.has_duplicate(place.data(), radius) == (least < radius),
                          "in each joint");
                }
                places.add(place.data()), known.push_back(place);
                claim(places.has_near(place.data(), 1e-3) && places.has_duplicate(place.data(), 1e-9), "itself");
            }
            claim(places.size() == 200, "all are kept");
        }
    }
}

CHECK(hidden_places_are_near_nothing) {
    for (const Bounds<double>& bounds : {Bounds<double>{}, two_of_them_wrap()}) {
        Places places(bounds, 5);
        const double here[5] = {0.1, 0.2, 0.3, 0.4, 0.5};
        claim(!places.has_near(here, 1e3) && !places.has_duplicate(here, 1e3), "of no place nothing is near");
        places.add(here);
        claim(!places.is_hidden(0) && places.has_near(here, 1e-3), "a place");
        places.hide(0);
        claim(places.is_hidden(0) && !places.has_near(here, 1e3) && !places.has_duplicate(here, 1e3), "a hidden place");
    }
}

CHECK(duplicates_are_so_in_every_joint_and_on_the_circle) {
    const double a[3] = {0.0, 3.1, 0.0}, b[3] = {0.009, -3.18, 0.0}, c[3] = {0.011, 3.1, 0.0}, nan[3] = {NAN, 3.1, 0.0};
    Places places(two_of_them_wrap(), 3);
    places.add(a);
    claim(places.has_duplicate(b, 0.01), "close in all joints, one across the end of its turn");
    claim(!places.has_duplicate(c, 0.01), "apart in one joint");
    claim(!places.has_duplicate(nan, 0.01), "what is not a number is close to nothing");
}
