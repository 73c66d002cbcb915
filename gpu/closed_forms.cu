// Kernels that instantiate the closed forms of the solver. They only prove that the headers compile for a device.
#include "closed_form/closed_form.hpp"
#include "closed_form/redundancy_parameter.hpp"

// Candidates of an arm with six joints for each of n poses.
extern "C" __global__ void six_joints(long n, const eim::ClosedForm* form, const eim::Motion* poses,
                                      double (*q)[eim::kMostCandidates][6], int* counts, bool* decided) {
    const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
    if (i >= n) return;
    eim::Candidates found;
    form->solve(poses[i], found);
    for (int k = 0; k < found.n; ++k) {
        for (int j = 0; j < 6; ++j) q[i][k][j] = found.q[k][j];
    }
    counts[i] = found.n, decided[i] = found.is_decided();
}

// Ends a branch where it does not exist.
struct Visit {
    double* q;
    bool exists = true;

    bool root(int, double square, double& root) {
        root = sqrt(square);
        return exists = square >= 0.0;
    }
    bool angle(int joint, double y, double x) {
        q[joint] = eim::portable::atan2(y, x);
        return true;
    }
    bool direction(int joint, double y, double x, double& cosine, double& sine) {
        const double size = eim::portable::hypot(x, y);
        cosine = x / size, sine = y / size;
        return angle(joint, y, x);
    }
};

// The branches of an arm with seven joints for one value of its parameter at each of n poses.
extern "C" __global__ void seven_joints(long n, const eim::ParameterisedForm* form, const eim::Motion* poses,
                                        const double* values, double (*q)[eim::kHeldBranches][7],
                                        bool (*exists)[eim::kHeldBranches]) {
    const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
    if (i >= n) return;
    const eim::ParameterisedForm::AtPose at(*form, poses[i]);
    const eim::portable::SineCosine turn = eim::portable::sincos(values[i]);
    for (int branch = 0; branch < eim::kHeldBranches; ++branch) {
        Visit visit{q[i][branch]};
        q[i][branch][0] = values[i];
        at.walk(turn.cosine, turn.sine, branch, visit);
        exists[i][branch] = visit.exists;
    }
}

// Both forms of an arm, from its axes and the pose of its tip at zero.
extern "C" __global__ void recognise(const eim::Line (*axes)[6], const eim::Line (*seven)[7], const eim::Motion* tip,
                                     eim::ClosedForm* form, eim::ParameterisedForm* parameterised) {
    *form = eim::ClosedForm(*axes, *tip);
    *parameterised = eim::ParameterisedForm(*seven, *tip);
}
