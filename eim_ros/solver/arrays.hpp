// Arrays between Python and the solver: checked, copied, filled.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "restarts.hpp"

namespace eim {

namespace py = pybind11;

using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;
using Bools = py::array_t<bool, py::array::c_style | py::array::forcecast>;
using Unlocked = py::gil_scoped_release;

inline void expect(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

// Rows (n, n_columns) of an array.
inline py::ssize_t n_rows(const Doubles& rows, py::ssize_t n_columns, const char* what) {
    expect(rows.ndim() == 2 && rows.shape(1) == n_columns, what);
    return rows.shape(0);
}

inline py::ssize_t n_configurations(const Chain& chain, const Doubles& q) {
    return n_rows(q, chain.n_joints, "configurations need one column for each joint");
}

template <class T>
py::array_t<T> copy_of(const std::vector<T>& values, py::array::ShapeContainer shape) {
    return py::array_t<T>(std::move(shape), values.data());
}

// Rows and what became of them, as arrays that Python keeps.
struct Answer {
    Doubles positions;
    py::array_t<bool> converged;
    py::array_t<std::int64_t> iterations;
    Doubles errors;

    explicit Answer(Doubles rows)
        : positions(std::move(rows)),
          converged(positions.shape(0)),
          iterations(positions.shape(0)),
          errors({py::ssize_t(2), positions.shape(0)}) {
        std::fill_n(converged.mutable_data(), converged.size(), false);
        std::fill_n(iterations.mutable_data(), iterations.size(), 0);
    }
    Rows rows() {
        double* error = errors.mutable_data();
        return {positions.mutable_data(),  positions.shape(0),        int(positions.shape(1)),
                converged.mutable_data(),  iterations.mutable_data(), error,
                error + positions.shape(0)};
    }
    py::tuple tuple() const { return py::make_tuple(positions, converged, iterations, errors); }
};

inline Doubles copied(const Doubles& rows) {
    return Doubles({rows.shape(0), rows.shape(1)}, rows.data());
}

// Orthonormal within a tolerance, right-handed, above a row 0 0 0 1, and not so far that squares overflow.
inline bool is_rigid(const double* pose, double tolerance) {
    const auto p = [&](int row, int column) { return pose[4 * row + column]; };
    double worst = std::abs(p(3, 0)) + std::abs(p(3, 1)) + std::abs(p(3, 2)) + std::abs(p(3, 3) - 1.0),
           determinant = 0.0;
    bool finite = std::abs(p(0, 3)) + std::abs(p(1, 3)) + std::abs(p(2, 3)) < 1e100 && worst < 1.0;
    for (int a = 0; a < 3; ++a) {
        for (int b = 0; b < 3; ++b) {
            const double dot = p(0, a) * p(0, b) + p(1, a) * p(1, b) + p(2, a) * p(2, b);
            worst = std::max(worst, std::abs(dot - (a == b)));
            finite = finite && std::abs(p(a, b)) < 2.0;
        }
        const int b = (a + 1) % 3, c = (a + 2) % 3;
        determinant += p(0, a) * (p(1, b) * p(2, c) - p(1, c) * p(2, b));
    }
    return finite && worst <= tolerance && determinant > 0.0;
}

}  // namespace eim
