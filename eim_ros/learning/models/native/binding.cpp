// Python module for quadratic forms with a few components per point, for EM and k-means, and for sums over tables of
// probabilities. Only this file validates arrays. The GIL is released during the computation. Arguments are never
// modified, and arrays that are not row-major are copied.
#include <pybind11/stl.h>

#include "k_means.hpp"
#include "neighbourhood_search.hpp"
#include "numerics/arrays.hpp"
#include "quadratic_forms.hpp"
#include "softmax.hpp"

using namespace eim;

namespace {

using Doubles = RowByRow<double>;
using Indices = RowByRow<std::int64_t>;

constexpr Index kMostCoordinates = 10000;

// Checks the dtype and the shape of an array. Returns the array, or a row-major copy of it.
template <class T>
RowByRow<T> checked(const py::array& array, const char* name, std::initializer_list<Index> shape) {
    if (!array.dtype().equal(py::dtype::of<T>())) {
        throw std::invalid_argument(std::string(name) + " must be " + std::string(py::str(py::dtype::of<T>())) +
                                    ", got " + std::string(py::str(array.dtype())));
    }
    expect_shape(array, name, shape);
    RowByRow<T> rows = RowByRow<T>::ensure(array);
    if (!rows) throw std::bad_alloc();
    return rows;
}

// Checks that the entries of an array are row indices below n. Returns the array.
Indices checked_indices(const py::array& array, const char* name, std::initializer_list<Index> shape, Index n) {
    Indices indices = checked<std::int64_t>(array, name, shape);
    const std::int64_t* data = indices.data();
    if (!std::all_of(data, data + indices.size(), [n](std::int64_t i) { return 0 <= i && i < n; })) {
        throw std::invalid_argument(std::string(name) + " must be from 0 to " + std::to_string(n - 1));
    }
    return indices;
}

Lists lists(const Indices& indices) {
    return {indices.data(), indices.shape(0), indices.ndim() == 2 ? indices.shape(1) : 1};
}

Forms make_forms(const py::array& coefficients_, const py::array& narrow_, const py::array& residuals_,
                 const py::array& linear_) {
    const Doubles residuals = checked<double>(residuals_, "residuals", {kAny, kAny, kAny});
    const Index n_narrow = residuals.shape(0), n_dims = residuals.shape(1), width = residuals.shape(2) - 1;
    if (n_dims > width || width > kMostCoordinates) {
        throw std::invalid_argument("residuals must be (n_narrow, n_dims, n_dims + n_context + 1), got " +
                                    text({n_narrow, n_dims, width + 1}));
    }
    const Doubles linear = checked<double>(linear_, "linear", {n_narrow, width + 1});
    const Doubles coefficients = checked<double>(coefficients_, "coefficients", {kAny, (width + 1) * (width + 2) / 2});
    const Indices narrow = checked_indices(narrow_, "narrow", {n_narrow}, coefficients.shape(0));
    Forms forms(coefficients.shape(0), n_dims, width);
    for (Index c = 0; c < forms.n_components; ++c) {
        std::copy_n(coefficients.data() + c * forms.n_products, forms.n_products, forms.coefficients.numbers(c));
    }
    for (Index i = 0; i < n_narrow; ++i) forms.place[narrow.data()[i]] = i;
    forms.residuals.assign(residuals.data(), residuals.data() + residuals.size());
    forms.linear.assign(linear.data(), linear.data() + linear.size());
    return forms;
}

Doubles values(const Forms& forms, const py::array& joint_, const py::array& index_) {
    const Doubles joint = checked<double>(joint_, "joint", {kAny, forms.width});
    const Indices index = checked_indices(index_, "index", {joint.shape(0), kAny}, forms.n_components);
    Doubles result({index.shape(0), index.shape(1)});
    double* out = result.mutable_data();
    Unlocked unlocked;
    selected_values(forms, joint.data(), lists(index), out);
    return result;
}

Doubles log_sums(const Forms& forms, const py::array& joint_, const py::array& states_, const py::array& source_) {
    const Doubles joint = checked<double>(joint_, "joint", {kAny, forms.width});
    const Indices states = checked_indices(states_, "states", {kAny, kAny}, forms.n_components);
    const Indices source = checked_indices(source_, "source", {joint.shape(0)}, states.shape(0));
    Doubles result(joint.shape(0));
    double* out = result.mutable_data();
    Unlocked unlocked;
    selected_log_sums(forms, joint.data(), lists(states), lists(source), out);
    return result;
}

Doubles scores(const Forms& forms, const py::array& joint_, const py::array& index_, const py::array& shares_) {
    const Doubles joint = checked<double>(joint_, "joint", {kAny, forms.width});
    const Indices index = checked_indices(index_, "index", {joint.shape(0), kAny}, forms.n_components);
    const Doubles shares = checked<double>(shares_, "shares", {index.shape(0), index.shape(1)});
    Doubles result({joint.shape(0), forms.n_dims});
    double* out = result.mutable_data();
    Unlocked unlocked;
    selected_scores(forms, joint.data(), lists(index), shares.data(), out);
    return result;
}

py::tuple improve_states(const Forms& forms, const py::array& joint_, const py::array& states_,
                         const py::array& neighbours_, const py::array& random_) {
    const Index n_components = forms.n_components;
    const Doubles joint = checked<double>(joint_, "joint", {kAny, forms.width});
    const Indices states = checked_indices(states_, "states", {joint.shape(0), kAny}, n_components);
    const Indices neighbours = checked_indices(neighbours_, "neighbours", {n_components, kAny}, n_components);
    const Indices random = checked_indices(random_, "random", {joint.shape(0), kAny}, n_components);
    if (states.shape(1) == 0 || neighbours.shape(1) == 0) {
        throw std::invalid_argument("states and neighbours must have columns");
    }
    const SearchInput input{joint.data(), lists(states), lists(neighbours), lists(random)};
    Indices improved({states.shape(0), states.shape(1)});
    Indices refreshed({neighbours.shape(0), neighbours.shape(1)}, neighbours.data());
    Doubles products({n_components, forms.n_products});
    SearchResult result{improved.mutable_data(), refreshed.mutable_data(), products.mutable_data()};
    {
        Unlocked unlocked;
        NeighbourhoodSearch(forms, input).run(result);
    }
    return py::make_tuple(improved, refreshed, products, result.free_energy, result.n_evaluations);
}

py::tuple lagrangian(const py::array& design_, const py::array& parameters_, const py::array& fixed_, double slope) {
    const Doubles design = checked<double>(design_, "design", {kAny, kAny});
    const Index n = design.shape(0), p = design.shape(1);
    const Doubles parameters = checked<double>(parameters_, "parameters", {kAny, p});
    const Index k = parameters.shape(0);
    const Doubles fixed = checked<double>(fixed_, "fixed", {n, k});
    expect(n > 0 && k > 0, "design and parameters must have rows");
    Doubles gradient({k, p});
    double *out = gradient.mutable_data(), value;
    {
        Unlocked unlocked;
        value = softmax_lagrangian(design.data(), n, p, parameters.data(), k, fixed.data(), slope, out);
    }
    return py::make_tuple(value, gradient);
}

py::tuple moments(const py::array& old_, const py::array& reward_, double a, double s) {
    const Doubles old = checked<double>(old_, "old", {kAny, kAny});
    const Index n = old.shape(0), k = old.shape(1);
    const Doubles reward = checked<double>(reward_, "reward", {n, k});
    expect(n > 0 && k > 0, "tables must have rows and columns");
    TiltedMoments found;
    {
        Unlocked unlocked;
        found = tilted_moments(old.data(), reward.data(), n, k, a, s);
    }
    return py::make_tuple(found.entropy, found.cross_entropy, found.value_variance, found.covariance,
                          found.old_variance);
}

Columns columns(const Doubles& points, const std::optional<Doubles>& weight) {
    return {points.data(), weight ? weight->data() : nullptr, points.shape(1), points.shape(0)};
}

std::optional<Doubles> checked_weight(const std::optional<py::array>& weight, Index n) {
    return weight ? std::optional(checked<double>(*weight, "weight", {n})) : std::nullopt;
}

py::object em_step(const py::array& points_, const std::optional<py::array>& weight_, const py::array& log_weights_,
                   const py::array& means_, const py::array& factors_, const py::array& units_, double floor) {
    const Doubles points = checked<double>(points_, "points", {kAny, kAny});
    const Index d = points.shape(0), n = points.shape(1);
    const std::optional<Doubles> weight = checked_weight(weight_, n);
    const Doubles log_weights = checked<double>(log_weights_, "log_weights", {kAny});
    const Index k = log_weights.shape(0);
    const Doubles means = checked<double>(means_, "means", {k, d}), units = checked<double>(units_, "units", {d});
    const Doubles factors = checked<double>(factors_, "factors", {k, d, d});
    expect(n > 0 && k > 0 && d > 0, "points and means must not be empty");
    Doubles new_log_weights(k), new_means({k, d}), new_factors({k, d, d});
    const Gaussians<double> updated{new_log_weights.mutable_data(), new_means.mutable_data(),
                                    new_factors.mutable_data()};
    std::optional<double> log_likelihood;
    {
        Unlocked unlocked;
        GaussianEM step(columns(points, weight), k, {log_weights.data(), means.data(), factors.data()});
        log_likelihood = step.run(units.data(), floor, updated);
    }
    if (!log_likelihood) return py::none();
    return py::make_tuple(*log_likelihood, new_log_weights, new_means, new_factors);
}

Indices k_means(const py::array& points_, const std::optional<py::array>& weight_, const py::array& uniform_,
                Index n_iterations) {
    const Doubles points = checked<double>(points_, "points", {kAny, kAny});
    const Index n = points.shape(1);
    const std::optional<Doubles> weight = checked_weight(weight_, n);
    const Doubles uniform = checked<double>(uniform_, "uniform", {kAny});
    expect(n > 0 && uniform.size() > 0, "points and uniform must not be empty");
    Indices labels(n);
    std::int64_t* out = labels.mutable_data();
    Unlocked unlocked;
    KMeans clustering(columns(points, weight), uniform.size());
    clustering.seed(uniform.data());
    clustering.run(n_iterations, out);
    return labels;
}

}  // namespace

PYBIND11_MODULE(EIM_MODULE, module) {
    py::class_<Forms>(module, "SelectedForms", py::module_local())  // because each instruction set defines the class
        .def(py::init(&make_forms), py::arg("coefficients"), py::arg("narrow"), py::arg("residuals"), py::arg("linear"))
        .def("values", values, py::arg("joint"), py::arg("index"))
        .def("log_sums", log_sums, py::arg("joint"), py::arg("states"), py::arg("source"))
        .def("scores", scores, py::arg("joint"), py::arg("index"), py::arg("shares"))
        .def("improve_states", improve_states, py::arg("joint"), py::arg("states"), py::arg("neighbours"),
             py::arg("random"));
    module.def("em_step", em_step, py::arg("points"), py::arg("weight"), py::arg("log_weights"), py::arg("means"),
               py::arg("factors"), py::arg("units"), py::arg("floor"));
    module.def("k_means", k_means, py::arg("points"), py::arg("weight"), py::arg("uniform"), py::arg("n_iterations"));
    module.def("softmax_lagrangian", lagrangian, py::arg("design"), py::arg("parameters"), py::arg("fixed"),
               py::arg("slope"));
    module.def("tilted_moments", moments, py::arg("old"), py::arg("reward"), py::arg("a"), py::arg("s"));
}
