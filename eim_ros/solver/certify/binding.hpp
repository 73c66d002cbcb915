// Python bindings of the proofs that all components are found. `binding.cpp` includes this file.
#pragma once

#include "certify/components.hpp"
#include "certify/curves.hpp"
#include "certify/nearest.hpp"
#include "manifold/binding.hpp"

namespace eim {

// Returns the solution of a pose nearest to a reference, in the form of `nearest_on_curve`; no row if it is not
// decided. The configuration `start` is the reference moved into the limits. The solution next to `start` shortens the
// search.
inline py::tuple nearest_in_closed_form(const ParameterisedForm& form, const Chain& chain, const Task& task,
                                        const StepOptions& effort, const Converted<double>& reference,
                                        const Converted<double>& start, const Converted<bool>& continuous) {
    expect(form.fits() && chain.kind == 7, "the arm has no closed form with a redundancy parameter");
    expect(!task.position_only && !task.has_tolerances, "closed forms need complete poses, without tolerances");
    expect_shape(reference, "the configuration to be near to", {7}), expect_shape(start, "the start", {7});
    expect_shape(continuous, "continuous", {7});
    const std::vector<double> ones(7, 1.0);
    const Cost cost{reference.data(), ones.data(), continuous.data(), 7};
    Rows found({7});
    {
        Unlocked unlocked(true);
        found = nearest_by_form(chain, form, task, effort, cost, start.data());
    }
    return with_distances(found, cost);
}

inline void bind_certify(py::module_& module) {
    py::class_<ParameterisedForm>(module, "ParameterisedForm", py::module_local())
        .def(py::init([](const Chain& chain) { return parameterised_form(chain); }))
        .def_property_readonly("fits", &ParameterisedForm::fits)
        .def_property_readonly("held", &ParameterisedForm::held)
        .def("nearest", nearest_in_closed_form);
    py::class_<CurveForms>(module, "General7R", py::module_local())
        .def(py::init<const Chain&>())
        .def_property_readonly("fits", &CurveForms::fits);
}

}  // namespace eim
