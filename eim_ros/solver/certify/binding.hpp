// Forms that prove which components there are, as a part of the Python module. Included by binding.cpp.
#pragma once

#include "certify/components.hpp"
#include "certify/curves.hpp"
#include "numerics/arrays.hpp"

namespace eim {

inline void bind_certify(py::module_& module) {
    py::class_<ParameterisedForm>(module, "ParameterisedForm", py::module_local())
        .def(py::init(&parameterised_form))
        .def_property_readonly("fits", &ParameterisedForm::fits)
        .def_property_readonly("held", &ParameterisedForm::held);
    py::class_<General7R>(module, "General7R", py::module_local())
        .def(py::init<const Chain&>())
        .def_property_readonly("fits", &General7R::fits);
}

}  // namespace eim
