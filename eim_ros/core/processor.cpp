// Python module that checks which instruction sets this processor has. The module is compiled for the baseline, because
// it must run on every processor. Python calls the module before it loads other modules, whose instructions may be
// illegal here.
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
