// The closed form with a redundancy parameter as a part of the Python module. Included by binding.cpp.
#pragma once

#include "certify/components.hpp"
#include "numerics/arrays.hpp"

namespace eim {

inline void bind_certify(py::module_& module) {
    py::class_<ParameterisedForm>(module, "ParameterisedForm", py::module_local())
        .def(py::init(&parameterised_form))
        .def_property_readonly("fits", &ParameterisedForm::fits)
        .def_property_readonly("held", &ParameterisedForm::held);
}

}  // namespace eim
