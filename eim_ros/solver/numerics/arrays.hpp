// Arrays exchanged with Python. Shapes are checked only here. Results are returned as copies.
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

// Replaces the listener of this thread while it exists.
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

// Releases the interpreter's lock for work without Python objects. The lock is released at once, or after kShort if the
// work is probably short. A short delay pays off because a busy Python thread that gets the lock keeps it for 5 ms
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

// Acquires the interpreter's lock again, for work with Python objects inside of work without them.
class Locked {
    ClockListenerGuard listening_{nullptr};
    py::gil_scoped_acquire acquired_;
};

// Arrays in row-major order. Other arrays are copied to this order.
template <class T, int Flags = 0>
using RowByRow = py::array_t<T, int(py::array::c_style) | int(py::detail::npy_api::NPY_ARRAY_ALIGNED_) | Flags>;

// The same, but values of other types are converted.
template <class T>
using Converted = RowByRow<T, py::array::forcecast>;

inline constexpr Index kAny = -1;  // stands for any size of an axis

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
