// The solver as a Python module. Each folder has its own bindings, which are the only code that checks arrays. The GIL
// is released while the solver works.
//
// The folders, from the lowest to the highest. A file includes only files of the same folder and of lower folders.
// clang-format off
//   numerics     packs of numbers, twice the precision, polynomials, intervals, random numbers, mixtures of experts
//   chain        kinematics of an arm, the task, Newton's method
//   selection    distinct rows, and rows that are far from each other
//   general_6r   all solutions of any arm with six revolute joints, by elimination
//   general_7r   self-motions of any arm with seven revolute joints, as a polynomial of two joints
//   closed_form  solutions in closed form, also with a redundancy parameter; 2 pi-equivalent solutions
//   manifold     continuation along the solutions of a pose, curves of solutions
//   certify      proof by interval arithmetic or by elimination that all components are found; the nearest solution
//   search       searches from random configurations, for one pose and for many
//   paths        paths through the solutions of successive poses
// clang-format on
#include "certify/binding.hpp"

#include "closed_form/binding.hpp"
#include "manifold/binding.hpp"
#include "numerics/binding.hpp"
#include "paths/binding.hpp"
#include "search/binding.hpp"
#include "search/self_motion_binding.hpp"
#include "selection/binding.hpp"

PYBIND11_MODULE(EIM_MODULE, module) {
    using namespace eim;
    bind_portable(module);
    bind_mixture(module);
    auto chain = bind_chain(module);
    bind_selection(module);
    bind_closed_forms(module);
    bind_manifold(module, chain);
    bind_certify(module);
    bind_search(module);
    bind_self_motions(module);
    bind_paths(module);
}
