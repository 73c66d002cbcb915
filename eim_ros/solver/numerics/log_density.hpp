// Log density of samples under a mixture, summed over all components that matter. The result is accurate up to
// rounding.
//
// Usually only a few experts matter to a sample. Single precision is accurate enough to select them. The log joint of a
// component is height - |w|^2 / 2 with w = L^-1 (x - mean). Let w be rounded by an error of length s. The exact |w|^2
// is then at most (1 + s) |w|^2 + s + s^2 for the rounded w, and vice versa. This bound shows which components are
// negligible compared with others. The remaining components are computed in double precision.
#pragma once

#include "numerics/mixture.hpp"
#include "numerics/portable.hpp"

namespace eim {

// D is the number of coordinates of a sample, or 0 for any number.
template <int D>
class LogDensity {
   public:
    explicit LogDensity(const Mixture& mixture) : experts_(mixture.experts), d_(D > 0 ? D : experts_.n_dims) {
        const std::ptrdiff_t width = std::ptrdiff_t(experts_.k) * d_;
        shifts_.resize(mixture.n_contexts * width);
        for (int i = 0; i < mixture.n_contexts; ++i) {
            affine(mixture.contexts + i * experts_.n_context, experts_.n_context, experts_.white_weights.data(),
                   experts_.white_biases.data(), width, shifts_.data() + i * width);
        }
        single_shifts_.assign(shifts_.begin(), shifts_.end());
        for (int c = 0; c < mixture.n_components(); ++c) {
            heights_.push_back(mixture.log_weights[c] + experts_.log_normalisers[c % experts_.k]);
        }
        order_.resize(heights_.size());
        std::iota(order_.begin(), order_.end(), 0);
        // large components come first, because they show which other components are negligible
        const auto few = order_.begin() + std::min<std::size_t>(order_.size(), 32);
        std::partial_sort(order_.begin(), few, order_.end(), [&](int a, int b) { return heights_[a] > heights_[b]; });
    }

    // Fills result (n,) with the log densities [nat] of samples (n, d).
    void run(const double* samples, std::ptrdiff_t n, double* result) {
        for (std::ptrdiff_t first = 0; first < n; first += kTogether) {
            const int n_here = int(std::min<std::ptrdiff_t>(kTogether, n - first));
            load(samples + first * d_, n_here);
            find_candidates();
            for (int i = 0; i < n_here; i += W) {
                const V sums = log_sum(i / W);
                for (int lane = 0; lane < std::min(W, n_here - i); ++lane) {
                    const Index sample = first + sorted_[i + lane];
                    const double* x = samples + sample * d_;
                    // a sample with NaN has no density, and does not affect its neighbours in the pack
                    const double nan = std::accumulate(x, x + d_, 0.0);
                    result[sample] = nan == nan ? get(sums, lane) : nan;
                }
            }
        }
    }

   private:
    using V = WideDouble;
    using Narrow = WideFloat;
    static constexpr int W = kLanes<V>, kTogether = 512;  // samples per block, whose packs stay in the cache
    static constexpr float kLeastError = 1e-5f;           // least s; exceeds the rounding errors of squares and heights
    // components with a larger s are always computed in double precision
    static constexpr float kMostError = 0.1f;
    static constexpr float kMargin = float(kNegligible) + 1;  // [nat]

    // Computes L^-1 x - shift for a component.
    template <class S>
    struct White {
        const int d;
        const S *inverse, *shift;

        // Returns the sum of squares of coordinates first to last.
        template <class T>
        T squares(const T* x, int first, int last) const {
            T sum{};
#pragma GCC unroll 8
            for (int a = first; a < last; ++a) {
                T white = fill<T>(-shift[a]);
#pragma GCC unroll 8
                for (int b = 0; b <= a; ++b) white += inverse[a * (D > 0 ? D : d) + b] * x[b];
                sum += white * white;
            }
            return sum;
        }
    };

    template <class S>
    White<S> white(int component) const {
        const Index square = Index(component % experts_.k) * d_ * d_, row = Index(component) * d_;
        return {d_, &in_precision<S>(experts_.inverses, experts_.single_inverses)[square],
                &in_precision<S>(shifts_, single_shifts_)[row]};
    }

    // Sorts samples so that neighbours share a pack. Few components then matter to each pack. The samples are split
    // recursively into halves along the axis with the largest extent.
    void sort(const double* samples, int* begin, int* end) {
        if (end - begin <= 2 * W) return;
        int axis = 0;
        double widest = -1.0;
        for (int a = 0; a < d_; ++a) {
            double lowest = samples[*begin * d_ + a], highest = lowest;
            for (const int* i = begin; i < end; ++i) {
                lowest = std::min(lowest, samples[*i * d_ + a]), highest = std::max(highest, samples[*i * d_ + a]);
            }
            if (highest - lowest > widest) widest = highest - lowest, axis = a;
        }
        int* middle = begin + ((end - begin) / 2 + 2 * W - 1) / (2 * W) * (2 * W);
        const auto is_before = [&](int i, int j) { return samples[i * d_ + axis] < samples[j * d_ + axis]; };
        std::nth_element(begin, middle, end, is_before);
        sort(samples, begin, middle), sort(samples, middle, end);
    }

    // Stores samples in packs. The last sample is repeated to fill its pack. Each pack in single precision corresponds
    // to two packs in double precision.
    void load(const double* samples, int n) {
        const int n_packs = (n + 2 * W - 1) / (2 * W);
        sorted_.resize(n);
        std::iota(sorted_.begin(), sorted_.end(), 0);
        if (std::isfinite(std::accumulate(samples, samples + n * d_, 0.0))) {
            sort(samples, sorted_.data(), sorted_.data() + n);
        }
        narrow_.resize(n_packs * d_), wide_.resize(2 * n_packs * d_);
        extent_ = 0.0;
        for (int i = 0; i < 2 * W * n_packs; ++i) {
            for (int a = 0; a < d_; ++a) {
                const double x = samples[sorted_[std::min(i, n - 1)] * d_ + a];
                set(narrow_[i / (2 * W) * d_ + a], i % (2 * W), float(x)), set(wide_[i / W * d_ + a], i % W, x);
                extent_ = std::max(extent_, std::abs(x));
            }
        }
        least_.assign(n_packs, fill<Narrow>(-std::numeric_limits<float>::infinity()));
    }

    // Returns an upper bound of s in single precision, for samples with coordinates up to extent_.
    float error(int component) const {
        const double* shift = shifts_.data() + std::ptrdiff_t(component) * d_;
        const double length = std::sqrt(std::inner_product(shift, shift + d_, shift, 0.0));
        return kLeastError +
               float((2 * d_ + 4) * 0x1p-24 * (experts_.norms[component % experts_.k] * extent_ + length));
    }

    // Selects the components that may matter to the samples of each pack. The first half of the coordinates rules out
    // most components.
    void find_candidates() {
        const int d = D > 0 ? D : d_, half = (d + 1) / 2, n_packs = int(least_.size());
        candidates_.assign(n_packs, {});
        for (int c : order_) {
            const White<float> w = white<float>(c);
            const float s = error(c), height = float(heights_[c]), scale = 1.0f + s, offset = s + s * s;
            for (int pack = 0; pack < n_packs; ++pack) {
                if (s < kMostError) {
                    const Narrow* x = &narrow_[pack * d];
                    const Narrow bound = 2.0f * scale * (height + kMargin - least_[pack]) + offset;
                    Narrow square = w.squares(x, 0, half);
                    if (!any(square <= bound)) continue;
                    square += w.squares(x, half, d);
                    if (!any(square <= bound)) continue;
                    least_[pack] = larger(height - 0.5f * (scale * square + offset), least_[pack]);
                }
                candidates_[pack].push_back(c);
            }
        }
    }

    // Returns the log of the sum over the candidates, for a pack of samples.
    V log_sum(int pack) {
        const int d = D > 0 ? D : d_;
        V largest = fill<V>(-std::numeric_limits<double>::infinity()), total{};
        values_.clear();
        for (int c : candidates_[pack / 2]) {
            values_.push_back(heights_[c] - 0.5 * white<double>(c).squares(&wide_[pack * d], 0, d));
            largest = larger(values_.back(), largest);
        }
        for (const V& value : values_) {
            if (any(value - largest > -kNegligible)) total += falling_exp(value - largest);
        }
        for (int lane = 0; lane < W; ++lane) set(total, lane, portable::log(get(total, lane)));
        return largest + total;
    }

    const Experts& experts_;
    const int d_;
    std::vector<double> shifts_, heights_;      // for each component: L^-1 mean (d,); log weight plus log normaliser
    std::vector<float> single_shifts_;          // shifts_ in single precision
    std::vector<int> order_, sorted_;           // component indices; sample indices
    double extent_;                             // largest absolute coordinate of a sample
    std::vector<Narrow> narrow_, least_;        // samples; lower bound of the largest log joint
    std::vector<V> wide_, values_;              // samples; log joints of a pack
    std::vector<std::vector<int>> candidates_;  // for each pack in single precision
};

}  // namespace eim
