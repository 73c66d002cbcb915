// Python module that reports the instruction sets of this processor. The module itself uses only the baseline, so that
// it runs on every processor. Python calls it before loading a module whose instructions could be illegal here.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "instruction_set.hpp"

namespace {

PyObject* runs_here(PyObject*, PyObject* argument) {
    const char* instruction_set = PyUnicode_AsUTF8(argument);
    return instruction_set == nullptr ? nullptr : PyBool_FromLong(eim::runs_here(instruction_set));
}

PyMethodDef methods[] = {
    {"runs_here", runs_here, METH_O, "Whether this processor has an instruction set: avx2 or baseline."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef processor = {PyModuleDef_HEAD_INIT, "_processor", nullptr, 0, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__processor() {
    return PyModule_Create(&processor);
}
