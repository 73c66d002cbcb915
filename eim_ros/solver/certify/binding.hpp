// Forms that prove which components there are, as a part of the Python module. Included by binding.cpp.
#pragma once

#include "certify/components.hpp"
#include "certify/curves.hpp"
#include "certify/nearest.hpp"
#include "chain/binding.hpp"

namespace eim {

// The solution (1, n_joints) of a pose nearest to a configuration, or none (0, n_joints) if it is not decided.
inline Converted<double> nearest_in_closed_form(const ParameterisedForm& form, const Chain& chain, const Task& task,
                                                const Converted<double>& reference, const Converted<bool>& continuous) {
    expect(form.fits() && chain.kind == 7, "the arm has no closed form with one joint fixed");
    expect(!task.position_only && !task.has_tolerances, "closed forms need complete poses, without tolerances");
    expect_shape(reference, "the configuration to be near to", {7}), expect_shape(continuous, "continuous", {7});
    Configurations found{7};
    {
        Unlocked unlocked;
        NearestInClosedForm nearest(chain, form, task, reference.data(), continuous.data());
        if (nearest.run()) found.add(nearest.configuration());
    }
    return positions_of(found);
}

inline void bind_certify(py::module_& module) {
    py::class_<ParameterisedForm>(module, "ParameterisedForm", py::module_local())
        .def(py::init(&parameterised_form))
        .def_property_readonly("fits", &ParameterisedForm::fits)
        .def_property_readonly("held", &ParameterisedForm::held)
        .def("nearest", nearest_in_closed_form);
    py::class_<General7R>(module, "General7R", py::module_local())
        .def(py::init<const Chain&>())
        .def_property_readonly("fits", &General7R::fits);
}

}  // namespace eim
