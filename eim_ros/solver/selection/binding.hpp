// Python bindings for the selection of rows. `binding.cpp` includes this file.
#pragma once

#include "chain/binding.hpp"
#include "selection/farthest_rows.hpp"

namespace eim {

// Returns the indices of rows that are not near-duplicates of an earlier row. Also returns the number of rows that were
// compared before the deadline.
inline py::tuple distinct_rows(const Converted<double>& bounds, const Converted<double>& rows, double tolerance,
                               double deadline) {
    const Bounds<double> joints = make_bounds(bounds);
    expect_shape(rows, "rows", {kAny, bounds.shape(1)});
    Places known(joints, int(bounds.shape(1)));
    const auto is_new = [&](Index i) {
        const double* row = rows.data() + i * rows.shape(1);
        const bool is_known = known.has_duplicate(row, tolerance);
        if (!is_known) known.add(row);
        return !is_known;
    };
    Watch watch(deadline);
    Index n_seen = 0;
    std::vector<Index> kept;
    for (; n_seen < rows.shape(0) && !watch.is_past(); ++n_seen) {
        if (is_new(n_seen)) kept.push_back(n_seen);
    }
    return py::make_tuple(copy_of(kept, {Index(kept.size())}), n_seen);
}

// Returns whether each row is a near-duplicate of one of `others`.
inline py::array_t<bool> is_within(const Converted<double>& bounds, const Converted<double>& rows,
                                   const Converted<double>& others, double tolerance) {
    const Bounds<double> joints = make_bounds(bounds);
    expect_shape(rows, "rows", {kAny, bounds.shape(1)}), expect_shape(others, "others", {kAny, bounds.shape(1)});
    Places known(joints, int(bounds.shape(1)));
    for (Index i = 0; i < others.shape(0); ++i) known.add(others.data() + i * others.shape(1));
    py::array_t<bool> is_near(rows.shape(0));
    for (Index i = 0; i < rows.shape(0); ++i) {
        is_near.mutable_data()[i] = known.has_duplicate(rows.data() + i * rows.shape(1), tolerance);
    }
    return is_near;
}

// Returns the indices of rows that are spread over all rows.
inline py::array_t<Index> farthest_of(const Converted<double>& bounds, const Converted<double>& rows, Index n,
                                      double deadline) {
    const Bounds<double> joints = make_bounds(bounds);
    expect_shape(rows, "rows", {kAny, bounds.shape(1)});
    const std::vector<Index> chosen =
        farthest_rows(joints, {int(bounds.shape(1)), {rows.data(), rows.data() + rows.size()}}, n, deadline);
    return copy_of(chosen, {Index(chosen.size())});
}

inline void bind_selection(py::module_& module) {
    module.def("distinct_rows", distinct_rows);
    module.def("farthest_rows", farthest_of);
    module.def("is_within", is_within);
}

}  // namespace eim
