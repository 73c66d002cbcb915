// Log joint densities of a few linear experts per point: values, the log of their sum, and gradients.
//
// Let e = [x, y, 1] for a point [x, y]. The log joint density of component c is linear in the products e_a e_b with a
// <= b:
//
//     log q(x, c|y) + A(y) = sum_p coefficients[c, p] products[p].
//
// For a narrow component, these terms would cancel. The density is computed as l_c'e - 1/2 |R_c e|^2 instead (see
// learning/models/quadratic_form.py).
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "numerics/pack.hpp"
#include "numerics/portable.hpp"

namespace eim {

using Pack = WideDouble;

inline constexpr double kLeastShare = 1e-20;  // smaller responsibilities are below rounding errors
inline constexpr double kDistant = 46.0;      // [nat], -log(kLeastShare)

// Rows of numbers in packs. Each row is padded with zeros to complete packs, because loops without a scalar remainder
// are faster.
struct PackedRows {
    Index n_packs;
    std::vector<Pack> packs;

    PackedRows(Index n_rows, Index n_columns)
        : n_packs((n_columns + kLanes<Pack> - 1) / kLanes<Pack>), packs(n_rows * n_packs, Pack{}) {}
    Pack* row(Index i) { return packs.data() + i * n_packs; }
    const Pack* row(Index i) const { return packs.data() + i * n_packs; }
    double* numbers(Index i) { return reinterpret_cast<double*>(row(i)); }
    const double* numbers(Index i) const { return reinterpret_cast<const double*>(row(i)); }
};

// Rows of component indices: the states of each point, or the neighbours of each component.
struct Lists {
    const std::int64_t* data;
    Index n_rows, n_columns;
    const std::int64_t* row(Index i) const { return data + i * n_columns; }
};

struct Forms {
    static constexpr Index kWide = -1;
    Index n_components, n_dims, width, n_products;  // n_dims: dimension of x; width: of [x, y]
    PackedRows coefficients;                        // (n_components, n_products)
    std::vector<Index> place;                       // row in residuals and linear; kWide if not narrow
    std::vector<double> residuals, linear;          // R (n_narrow, n_dims, width + 1), l (n_narrow, width + 1)

    Forms(Index n_components, Index n_dims, Index width)
        : n_components(n_components),
          n_dims(n_dims),
          width(width),
          n_products((width + 1) * (width + 2) / 2),
          coefficients(n_components, n_products),
          place(n_components, kWide) {}

    const double* residual_row(Index narrow, Index a) const {
        return residuals.data() + (narrow * n_dims + a) * (width + 1);
    }
    const double* linear_row(Index narrow) const { return linear.data() + narrow * (width + 1); }
};

// A point and the products of its coordinates.
struct Point {
    const double* joint = nullptr;
    PackedRows products;

    explicit Point(const Forms& forms) : products(1, forms.n_products) {}
    void move_to(const double* joint_, Index width) {
        joint = joint_;
        double* product = products.numbers(0);
        for (Index a = 0; a < width; ++a) {
            for (Index b = a; b < width; ++b) *product++ = joint[a] * joint[b];
            *product++ = joint[a];
        }
        *product = 1.0;
    }
};

// Returns row'e.
inline double affine(const double* row, const double* joint, Index width) {
    double sum = row[width];
    for (Index k = 0; k < width; ++k) sum += row[k] * joint[k];
    return sum;
}

inline double narrow_value(const Forms& forms, Index narrow, const double* joint) {
    double value = affine(forms.linear_row(narrow), joint, forms.width);
    for (Index a = 0; a < forms.n_dims; ++a) {
        const double residual = affine(forms.residual_row(narrow, a), joint, forms.width);
        value -= 0.5 * residual * residual;
    }
    return value;
}

// Evaluates M components at a time, because the processor computes independent sums in parallel.
template <int M>
inline void wide_values(const Forms& forms, const Point& point, const std::int64_t* components, double* values) {
    const Pack *products = point.products.row(0), *rows[M];
    Pack sums[M] = {};
    for (int m = 0; m < M; ++m) rows[m] = forms.coefficients.row(components[m]);
    for (Index p = 0; p < forms.coefficients.n_packs; ++p) {
        for (int m = 0; m < M; ++m) sums[m] += rows[m][p] * products[p];
    }
    for (int m = 0; m < M; ++m) values[m] = sum(sums[m]);
}

// Fills values (n,) with the log joint densities of the given components at a point.
inline void evaluate(const Forms& forms, const Point& point, const std::int64_t* components, Index n, double* values) {
    Index i = 0;
    for (; i + 4 <= n; i += 4) wide_values<4>(forms, point, components + i, values + i);
    for (; i < n; ++i) wide_values<1>(forms, point, components + i, values + i);
    if (forms.residuals.empty()) return;
    for (i = 0; i < n; ++i) {
        const Index narrow = forms.place[components[i]];
        if (narrow != Forms::kWide) values[i] = narrow_value(forms, narrow, point.joint);
    }
}

// Fills values (n, G) with the log joint densities of the components in index (n, G) at points joint (n, width).
inline void selected_values(const Forms& forms, const double* joint, const Lists& index, double* values) {
    Point point(forms);
    for (Index i = 0; i < index.n_rows; ++i) {
        point.move_to(joint + i * forms.width, forms.width);
        evaluate(forms, point, index.row(i), index.n_columns, values + i * index.n_columns);
    }
}

// Returns log sum_g exp(values_g), or NaN if any value is NaN.
inline double log_sum_exp(const double* values, Index n) {
    double largest = -std::numeric_limits<double>::infinity(), total = 0.0;
    for (Index g = 0; g < n; ++g) largest = values[g] > largest ? values[g] : largest;
    for (Index g = 0; g < n; ++g) {
        if (!(values[g] <= largest - kDistant)) total += portable::exp(values[g] - largest);
    }
    return largest + portable::log(total);
}

// Fills sums (n,) with the log of the sum of the joint densities over the components in row source[i] of states.
inline void selected_log_sums(const Forms& forms, const double* joint, const Lists& states, const Lists& source,
                              double* sums) {
    Point point(forms);
    std::vector<double> values(states.n_columns);
    for (Index i = 0; i < source.n_rows; ++i) {
        point.move_to(joint + i * forms.width, forms.width);
        evaluate(forms, point, states.row(*source.row(i)), states.n_columns, values.data());
        sums[i] = log_sum_exp(values.data(), states.n_columns);
    }
}

// Adds the gradient l - R'R e of a narrow form with respect to x, times `share`, to score (n_dims,).
inline void add_narrow_score(const Forms& forms, Index narrow, const double* joint, double share, double* score) {
    const double* slope = forms.linear_row(narrow);
    for (Index a = 0; a < forms.n_dims; ++a) score[a] += share * slope[a];
    for (Index b = 0; b < forms.n_dims; ++b) {
        const double* row = forms.residual_row(narrow, b);
        const double pull = share * affine(row, joint, forms.width);
        for (Index a = 0; a < forms.n_dims; ++a) score[a] -= pull * row[a];
    }
}

// Adds the gradient of a form with respect to x to score (n_dims,). `coefficient` points to the coefficients of the
// form.
inline void add_score(const Forms& forms, const double* coefficient, const double* joint, double* score) {
    for (Index a = 0; a < forms.n_dims; ++a) {
        score[a] += *coefficient * joint[a];  // the square counts twice: once here and once below
        double along = 0.0;
        for (Index b = a; b < forms.width; ++b) along += coefficient[b - a] * joint[b];
        for (Index b = a + 1; b < forms.n_dims; ++b) score[b] += coefficient[b - a] * joint[a];
        score[a] += along + coefficient[forms.width - a];
        coefficient += forms.width - a + 1;
    }
}

// Fills scores (n, n_dims) with the gradients of the forms in index (n, G) with respect to x, averaged with the weights
// shares (n, G).
//
// The averaged coefficients define a single form, whose gradient is computed once per point.
inline void selected_scores(const Forms& forms, const double* joint, const Lists& index, const double* shares,
                            double* scores) {
    PackedRows average(1, forms.n_products);
    for (Index i = 0; i < index.n_rows; ++i, joint += forms.width, scores += forms.n_dims) {
        std::fill_n(scores, forms.n_dims, 0.0);
        std::fill(average.packs.begin(), average.packs.end(), Pack{});
        for (Index g = 0; g < index.n_columns; ++g) {
            const double share = shares[i * index.n_columns + g];
            if (share <= kLeastShare) continue;
            const std::int64_t component = index.row(i)[g];
            if (const Index narrow = forms.place[component]; narrow != Forms::kWide) {
                add_narrow_score(forms, narrow, joint, share, scores);
                continue;
            }
            const Pack* row = forms.coefficients.row(component);
            for (Index p = 0; p < average.n_packs; ++p) average.packs[p] += share * row[p];
        }
        add_score(forms, average.numbers(0), joint, scores);
    }
}

}  // namespace eim
