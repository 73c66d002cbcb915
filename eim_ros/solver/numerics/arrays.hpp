// Arrays exchanged with Python. Only this file checks shapes. Results are returned as copies.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "numerics/clock.hpp"
#include "numerics/pack.hpp"

namespace eim {

namespace py = pybind11;

using Shape = std::vector<Index>;

// Replaces the clock listener of this thread during the lifetime of this object.
class ClockListenerGuard {
   public:
    explicit ClockListenerGuard(ClockListener* listener)
        : before_(std::exchange(clock_listener, listener)), began_(before_ ? steady_seconds() : 0.0) {}
    ~ClockListenerGuard() {
        if (before_) before_->skip(steady_seconds() - began_);
        clock_listener = before_;
    }
    ClockListenerGuard(const ClockListenerGuard&) = delete;

   private:
    ClockListener* before_;
    double began_;
};

// Releases the GIL for work without Python objects. The GIL is released immediately, or after kShort if the work is
// probably short. The delay is useful because a busy Python thread that gets the GIL keeps it for 5 ms
// (sys.getswitchinterval).
class Unlocked : ClockListener {
   public:
    explicit Unlocked(bool is_short = false) : listening_(is_short ? this : nullptr) {
        if (is_short) {
            end_ = steady_seconds() + kShort;
        } else {
            released_.emplace();
        }
    }

   private:
    static constexpr double kShort = 2e-3;  // [s]

    void hear(double now) override {
        if (!released_ && now > end_) released_.emplace();
    }
    void skip(double seconds) override { end_ += seconds; }

    double end_ = 0.0;
    ClockListenerGuard listening_;
    std::optional<py::gil_scoped_release> released_;
};

// Acquires the GIL for work with Python objects while `Unlocked` is active.
class Locked {
    ClockListenerGuard listening_{nullptr};
    py::gil_scoped_acquire acquired_;
};

// An array in row-major order. Arrays in other orders are copied.
template <class T, int Flags = 0>
using RowByRow = py::array_t<T, int(py::array::c_style) | int(py::detail::npy_api::NPY_ARRAY_ALIGNED_) | Flags>;

// An array in row-major order. Values of other types are converted.
template <class T>
using Converted = RowByRow<T, py::array::forcecast>;

inline constexpr Index kAny = -1;  // matches any size of an axis

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
