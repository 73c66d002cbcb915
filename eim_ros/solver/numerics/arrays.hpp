// Arrays exchanged with Python. Their shapes are checked here, once; results are returned as copies.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "numerics/pack.hpp"

namespace eim {

namespace py = pybind11;

using Shape = std::vector<Index>;
using Unlocked = py::gil_scoped_release;

// Arrays in row-major order; other arrays are copied.
template <class T, int Flags = 0>
using RowByRow = py::array_t<T, int(py::array::c_style) | int(py::detail::npy_api::NPY_ARRAY_ALIGNED_) | Flags>;

// The same, converted from other types.
template <class T>
using Converted = RowByRow<T, py::array::forcecast>;

inline constexpr Index kAny = -1;  // size of an axis

inline void expect(bool holds, const std::string& what) {
    if (!holds) throw std::invalid_argument(what);
}

inline std::string text(const Shape& shape) {
    std::string result = "(";
    for (Index size : shape) result += (result.size() > 1 ? ", " : "") + (size == kAny ? "any" : std::to_string(size));
    return result + ")";
}

inline void expect_shape(const py::array& array, const char* name, std::initializer_list<Index> shape) {
    const auto fits = [](Index size, Index wanted) { return wanted == kAny || size == wanted; };
    if (std::equal(array.shape(), array.shape() + array.ndim(), shape.begin(), shape.end(), fits)) return;
    throw std::invalid_argument(std::string(name) + " must be " + text(shape) + ", got " +
                                text({array.shape(), array.shape() + array.ndim()}));
}

template <class T>
py::array_t<T> copy_of(const std::vector<T>& values, py::array::ShapeContainer shape) {
    return py::array_t<T>(std::move(shape), values.data());
}

}  // namespace eim
