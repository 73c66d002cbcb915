// Kernels that solve many poses, with one thread per pose. The same source is compiled for GPUs (`kernels.cu`) and for
// the processor (`binding.cpp`), where a loop replaces the threads.
//
// The kernels use three methods:
//
//   roots      all roots of a closed form of six joints, with their revolutions
//   branches   branches of the parameterised form of seven joints, at random or evenly spaced values of the parameter
//   restarts   damped least squares from random seeds, for any chain
//
// Before a kernel writes a row, it checks the row against the limits, and by forward kinematics in double precision.
// Restarts begin in single precision. On cards that are slow in double precision, single precision is used to rule out
// branches that do not exist. Roots are always computed in double precision. Newton steps that correct roots of single
// precision take twice as long as the closed form (measured on a processor).
#pragma once

#include <cstdint>
#include <type_traits>

#include "chain/attempts.hpp"
#include "chain/rigid_transform.hpp"
#include "closed_form/redundancy_parameter.hpp"
#include "closed_form/root_rules.hpp"
#include "numerics/random.hpp"

// Names of the kernels, and the functions that they call with a request and the index of a pose.
#define EIM_KERNELS(KERNEL)                 \
    KERNEL(roots_6, find_roots<6>)          \
    KERNEL(roots_7, find_roots<7>)          \
    KERNEL(branches_7, find_branches)       \
    KERNEL(restarts_6, find_by_restarts<6>) \
    KERNEL(restarts_7, find_by_restarts<7>) \
    KERNEL(restarts_any, find_by_restarts<0>)

namespace eim::device {

inline constexpr int kMostRoots = 16;
inline constexpr double kRigid = 1e-9;         // largest error of products of rotation columns (see poses.py)
inline constexpr int kBranchesOfRestart = 30;  // number of branches tried in about the time of a restart

// An arm with its limits and closed forms. `Arm` contains no pointers, because its bytes are copied to a GPU.
struct Arm {
    Chain chain[2];                                // lengths in metres, and in the unit of the arm
    Task task;                                     // limits and tolerances; the target is not used
    Task open;                                     // for roots: no limits, except for a fixed joint
    Bounds<double> circles;                        // for roots: [-pi, pi), or the value of the fixed joint
    double least[kMostJoints], most[kMostJoints];  // range of random seeds [rad] or [m]
    double first_joint[3], farthest;               // [m]: origin of the first joint, largest distance from it
    int joints[6];                                 // joints of the closed form
    ClosedForm form;
    ParameterisedForm parameterised;

    int joint(int i) const { return joints[i]; }
};

enum Status : std::uint8_t {
    kOpen = 0,      // fewer rows than requested, although other solutions may exist
    kFull = 1,      // as many rows as requested
    kComplete = 2,  // all solutions, because each case of a closed form was decided
    kNotRigid = 3,  // the pose is not a rigid transform
};

// Request to solve n poses. The rows of all poses are stored joint by joint: q is (n_rows, dof, n) and errors is
// (n_rows, 2, n). Neighbouring threads therefore write to neighbouring numbers.
struct Request {
    const Arm* arm;
    const double* poses;  // (n, 4, 4)
    double *q, *errors;   // [rad] or [m]; errors [m], [rad]
    std::int32_t* counts;
    std::uint8_t* status;
    double* measures;  // manipulability of each row (n_rows, n), or null
    std::int64_t n;
    std::uint64_t seed;     // seed of the first pose; pose i uses seed + i
    std::int32_t n_rows;    // largest number of rows per pose
    std::int32_t patience;  // number of successive tries without a new row after which the search ends
    std::int32_t n_values;  // number of evenly spaced values of the parameter; 0 for random values
    std::int32_t lists_revolutions, has_reference, in_single;
    std::int32_t screens;  // whether single precision rules out branches first
    double apart;          // least difference of two rows in some joint [rad] or [m]; 0: rows are not compared
    double reference[kMostJoints];
};

static_assert(std::is_trivially_copyable_v<Arm> && std::is_trivially_copyable_v<Request>);

// Returns random numbers that depend only on the seed. Results therefore do not depend on how poses are divided into
// blocks.
inline Random random_of(std::uint64_t seed) {
    Random random(0.0);
    for (int round = 0; round < 2; ++round) {  // hash of splitmix64, because the seeds of poses are neighbours
        seed = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9u + 0x9E3779B97F4A7C15u;
        seed = (seed ^ seed >> 27) * 0x94D049BB133111EBu;
        seed ^= seed >> 31;
    }
    random.state = seed;
    return random;
}

// Returns Yoshikawa's manipulability: the product of the singular values of the first n_rows rows of a Jacobian. The
// method is that of `Robot.manipulability`: the lengths of the vectors of a Gram-Schmidt orthogonalisation are
// multiplied.
template <int N>
inline double manipulability(const Chain& chain, const Kinematics<double, N>& at, int n_rows) {
    const int n_joints = joints_of<N>(chain), n = std::min(n_rows, n_joints), size = std::max(n_rows, n_joints);
    double vectors[6][kJoints<N>], product = 1.0;
    for (int i = 0; i < n; ++i) {
        double* v = vectors[i];
        const auto along = [&](const double* other) {
            double sum = 0.0;
            for (int k = 0; k < size; ++k) sum += v[k] * other[k];
            return sum;
        };
        for (int k = 0; k < size; ++k) v[k] = n == n_rows ? at.jacobian[k][i] : at.jacobian[i][k];
        for (int k = 0; k < 2 * i; ++k) {  // orthogonalised twice, because of rounding
            const double part = along(vectors[k % i]);
            for (int l = 0; l < size; ++l) v[l] -= part * vectors[k % i][l];
        }
        const double length = std::sqrt(along(v));
        product *= length;
        for (int k = 0; k < size; ++k) v[k] /= length > 0.0 ? length : 1.0;
    }
    return product;
}

// The rows of one pose.
struct Answer {
    const Request& call;
    const Arm& arm;
    std::int64_t i;  // index of the pose
    const double* pose;
    Frame<double> target;
    int n = 0;

    Answer(const Request& call, std::int64_t i) : call(call), arm(*call.arm), i(i), pose(call.poses + 16 * i) {
        set_frame(target, 0, pose);
    }

    bool is_full() const { return n >= call.n_rows; }
    bool is_within_reach() const {
        double square = 0.0;
        for (int k = 0; k < 3; ++k)
            square += (pose[4 * k + 3] - arm.first_joint[k]) * (pose[4 * k + 3] - arm.first_joint[k]);
        return square <= arm.farthest * arm.farthest;
    }

    // Writes a configuration if it reaches the pose within the limits and differs from earlier rows.
    template <int N>
    bool add(const double* q) {
        Kinematics<double, N> at;
        Difference<double> error;
        const Chain& chain = arm.chain[0];
        const int n_joints = joints_of<N>(chain);
        forward<N>(chain, q, at);
        measure(at.tip, target, arm.task, error);
        if (!(error.distance <= arm.task.position_tolerance) || !(error.angle <= arm.task.orientation_tolerance) ||
            !is_inside(arm.task.bounds, q, n_joints)) {
            return false;
        }
        if (call.apart > 0.0 && is_near_others(q, n_joints)) return false;
        for (int j = 0; j < n_joints; ++j) {
            const bool turns = call.has_reference && arm.task.bounds.wraps[j];
            const double turn = turns ? std::round((call.reference[j] - q[j]) / kTwoPi) : 0.0;
            call.q[place(n * n_joints + j)] = q[j] + kTwoPi * turn;
        }
        call.errors[place(2 * n)] = error.distance, call.errors[place(2 * n + 1)] = error.angle;
        if (call.measures) {
            differentiate<N>(chain, at);
            call.measures[place(n)] = manipulability<N>(chain, at, arm.task.position_only ? 3 : 6);
        }
        ++n;
        return true;
    }

    // Fills the remaining rows with NaN.
    void end(Status status) const {
        const int n_joints = arm.chain[0].n_joints;
        constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
        for (int column = n * n_joints; column < call.n_rows * n_joints; ++column) call.q[place(column)] = nothing;
        for (int column = 2 * n; column < 2 * call.n_rows; ++column) call.errors[place(column)] = nothing;
        for (int row = n; call.measures && row < call.n_rows; ++row) call.measures[place(row)] = nothing;
        call.counts[i] = n, call.status[i] = status;
    }

   private:
    std::int64_t place(std::int64_t column) const { return column * call.n + i; }

    bool is_near_others(const double* q, int n_joints) const {
        for (int row = 0; row < n; ++row) {
            int j = 0;
            while (j < n_joints && std::abs(difference(q[j], call.q[place(row * n_joints + j)],
                                                       arm.task.bounds.wraps[j])) <= call.apart) {
                ++j;
            }
            if (j == n_joints) return true;
        }
        return false;
    }
};

// A single attempt in double precision. The result replaces the start configuration.
template <int N>
struct OneAttempt {
    const double* pose;
    double* q;
    double distance = 0.0, angle = 0.0;  // final errors [m], [rad]
    bool is_reached = false, is_begun = false;

    bool next(int, double* seed, Frame<double>& target, int&) {
        if (is_begun) return false;
        for (int j = 0; j < kUsed; ++j) seed[j] = q[j];
        set_frame(target, 0, pose);
        return is_begun = true;
    }
    void ended(int, const Attempt<double, N>& attempt) {
        for (int j = 0; j < kUsed; ++j) q[j] = attempt.q[j];
        distance = attempt.distance, angle = attempt.angle, is_reached = attempt.converged;
    }
    bool is_wanted(int) const { return true; }

   private:
    static constexpr int kUsed = kJoints<N>;
};

// The roots of a pose that are within the limits, and the revolutions of each root.
template <int N>
struct ListedRoots {
    const Request& call;
    const Arm& arm = *call.arm;
    int n = 0;
    double q[kMostRoots][N];
    double n_turns[kMostRoots];  // number of 2 pi-equivalent configurations

    Turns turns(const double* root, int j) const {
        return {arm.task.bounds, j, root[j], slack_at_limits(arm.task), false};
    }

    void add(const double* root) {
        n_turns[n] = 1.0;
        for (int j = 0; j < N; ++j) q[n][j] = root[j], n_turns[n] *= double(turns(root, j).n);
        n += n_turns[n] > 0.0;
    }

    // Computes the k-th revolution of a root, starting from the one nearest to the reference. Returns whether a joint
    // had to be moved to its limit. The distance beyond the limit is less than the slack.
    bool at(int i, Index k, double* turned) const {
        bool is_clamped = false;
        for (int j = 0; j < N; ++j) {
            const Turns all = turns(q[i], j);
            const double least = std::round((call.reference[j] - all.first) / kTwoPi);
            const Index first = Index(std::clamp(least, 0.0, double(all.n - 1)));
            const double value = all.at((first + k) % all.n);
            turned[j] = within(arm.task.bounds, j, value);
            is_clamped |= turned[j] != value && !arm.task.bounds.wraps[j];
            k /= all.n;
        }
        return is_clamped;
    }

    double distance(int i) const {
        double turned[N], square = 0.0;
        at(i, 0, turned);
        for (int j = 0; j < N; ++j) {
            const double away = difference(turned[j], call.reference[j], arm.task.bounds.wraps[j]);
            square += away * away;
        }
        return square;
    }

    void swap(int a, int b) {
        for (int j = 0; j < N; ++j) std::swap(q[a][j], q[b][j]);
        std::swap(n_turns[a], n_turns[b]);
    }
};

// Polishes the candidates of a closed form and lists the roots, like `closed_form_roots`. Returns whether the list
// contains all roots.
//
// A pose that has solutions with a free angle stays undecided.
template <int N>
inline bool list_roots(const Answer& answer, Candidates& candidates, ListedRoots<N>& roots) {
    const Arm& arm = answer.arm;
    const Task& task = arm.task;
    double residuals[kMostCandidates];
    bool reaches[kMostCandidates], is_complete = candidates.is_decided();
    const bool is_exact_form = arm.form.deviation() == 0.0;
    is_complete = is_complete && (is_exact_form || !candidates.meet);
    const auto configuration = [&](int k, double* q) {
        for (int j = 0; j < N; ++j) q[j] = arm.circles.lower[j];
        for (int j = 0; j < 6; ++j) q[arm.joints[j]] = candidates.q[k][j];
    };
    for (int k = 0; k < candidates.n; ++k) {
        double q[N];
        configuration(k, q);
        OneAttempt<N> attempt{answer.pose, q};
        run_attempts<N, double>(arm.chain[0], arm.open, kPolish, attempt);
        for (int j = 0; j < 6; ++j) candidates.q[k][j] = q[arm.joints[j]];
        residuals[k] = std::max(attempt.distance, attempt.angle);
        reaches[k] = attempt.distance <= task.position_tolerance && attempt.angle <= task.orientation_tolerance;
        if (candidates.is_free[k]) is_complete = false;
        if (residuals[k] > kExactRoot && (candidates.is_solution[k] || !is_exact_form)) is_complete = false;
        if (residuals[k] <= kMerged && is_between<N>(arm.chain[0], arm, task, q, residuals[k], false)) {
            is_complete = false;
        }
    }
    double known[kMostRoots][6];
    int n_known = 0;
    for (int round = 0; round < 4; ++round) {  // isolated roots before others, exact roots before inexact roots
        const bool exact = round % 2 == 0, free = round >= 2;
        for (int k = 0; k < candidates.n; ++k) {
            if (candidates.is_free[k] != free || (residuals[k] <= kExactRoot) != exact || !reaches[k]) continue;
            const double alike = exact ? 1e-6 : kMerged;  // FINEST in strategies/closed_form.py
            bool is_known = false;
            for (int i = 0; i < n_known; ++i) {
                is_known |= largest_difference(candidates.q[k], known[i], 6) <= alike;
            }
            if (is_known) continue;
            if (n_known == kMostRoots) {
                is_complete = false;
                continue;
            }
            std::copy_n(candidates.q[k], 6, known[n_known++]);
            double q[N];
            configuration(k, q);
            for (int j = 0; j < N; ++j) q[j] = within(arm.circles, j, q[j]);
            roots.add(q);
        }
    }
    return is_complete;
}

// Sorts roots by their distance from the reference. Without a reference, shuffles them if not all of them are
// requested.
template <int N>
inline void order_roots(ListedRoots<N>& roots, int n_rows, Random random) {
    if (roots.call.has_reference) {
        for (int i = 1; i < roots.n; ++i) {
            for (int k = i; k > 0 && roots.distance(k) < roots.distance(k - 1); --k) roots.swap(k, k - 1);
        }
    } else if (n_rows < roots.n) {
        for (int i = roots.n - 1; i > 0; --i) roots.swap(i, int(random.uniform() * (i + 1)));
    }
}

template <int N>
inline void find_roots(const Request& call, std::int64_t i) {
    Answer answer(call, i);
    if (!is_rigid(answer.pose, kRigid)) return answer.end(kNotRigid);
    if (call.has_reference && call.n_rows == 1 && answer.add<N>(call.reference)) return answer.end(kFull);
    double target[3][4];
    for (int k = 0; k < 12; ++k) target[k / 4][k % 4] = answer.pose[k];
    Candidates candidates;
    answer.arm.form.solve(motion_of(target), candidates, free_below(answer.arm.task));
    ListedRoots<N> roots{call};
    bool is_complete = list_roots(answer, candidates, roots);
    order_roots(roots, call.n_rows, random_of(call.seed + std::uint64_t(i)));
    double n_listed = 0.0, n_rows = 0.0;
    const Task& task = answer.arm.task;
    const StepOptions last{0.5 * task.position_tolerance, 0.5 * task.orientation_tolerance, 10, 2};  // as in `wind`
    const auto write = [&](int root, Index k) {
        double q[N];
        ++n_rows;
        if (roots.at(root, k, q)) {
            OneAttempt<N> attempt{answer.pose, q};
            run_attempts<N, double>(answer.arm.chain[0], task, last, attempt);
        }
        if (!answer.add<N>(q)) is_complete = false;
    };
    for (int root = 0; root < roots.n; ++root) n_listed += call.lists_revolutions ? roots.n_turns[root] : 1.0;
    for (int root = 0; root < roots.n && !answer.is_full(); ++root) write(root, 0);
    for (int root = 0; root < roots.n && call.lists_revolutions; ++root) {
        for (Index k = 1; double(k) < roots.n_turns[root] && !answer.is_full(); ++k) write(root, k);
    }
    answer.end(is_complete && n_rows == n_listed ? kComplete : answer.is_full() ? kFull : kOpen);
}

// Attempts from the reference, and from random seeds afterwards. Attempts in single precision are completed in double
// precision.
template <int N, class S>
struct Restarts {
    Answer& answer;
    Random random;
    int patience, n_failed = 0;
    bool is_begun = false;

    bool next(int, S* seed, Frame<S>& target, int&) {
        const Arm& arm = answer.arm;
        if (answer.is_full() || n_failed >= patience) return false;
        const bool from_reference = !is_begun && answer.call.has_reference;
        for (int j = 0; j < joints_of<N>(arm.chain[0]); ++j) {
            seed[j] = S(from_reference ? answer.call.reference[j] : random.uniform(arm.least[j], arm.most[j]));
        }
        set_frame(target, 0, answer.pose);
        ++n_failed;
        return is_begun = true;
    }
    void ended(int, const Attempt<S, N>& attempt) {
        if (!attempt.converged) return;
        const Arm& arm = answer.arm;
        const Task& task = arm.task;
        double q[kJoints<N>] = {};
        for (int j = 0; j < joints_of<N>(arm.chain[0]); ++j) q[j] = within(task.bounds, j, double(attempt.q[j]));
        OneAttempt<N> last{answer.pose, q};
        run_attempts<N, double>(arm.chain[0], task, effort_of(task), last);
        if (last.is_reached && answer.template add<N>(q)) n_failed = 0;
    }
    bool is_wanted(int) const { return true; }

    static StepOptions effort_of(const Task& task) {
        return {0.5 * task.position_tolerance, 0.5 * task.orientation_tolerance, kMostSteps, kPatience};
    }
    static constexpr int kMostSteps = 60, kPatience = 3;  // as in refinement.py and setup.py
};

// Adds rows by restarts.
template <int N>
inline void restart(Answer& answer, const Random& random, int patience) {
    const Arm& arm = answer.arm;
    StepOptions effort = Restarts<N, double>::effort_of(arm.task);
    if (answer.call.in_single) {
        effort.position_tolerance = std::max(effort.position_tolerance, kHandOver * arm.chain[0].unit);
        effort.orientation_tolerance = std::max(effort.orientation_tolerance, kHandOver);
        Restarts<N, float> restarts{answer, random, patience};
        run_attempts<N, float>(arm.chain[0], arm.task, effort, restarts);
    } else {
        Restarts<N, double> restarts{answer, random, patience};
        run_attempts<N, double>(arm.chain[0], arm.task, effort, restarts);
    }
}

template <int N>
inline void find_by_restarts(const Request& call, std::int64_t i) {
    Answer answer(call, i);
    if (!is_rigid(answer.pose, kRigid)) return answer.end(kNotRigid);
    if (!answer.is_within_reach()) return answer.end(kOpen);
    restart<N>(answer, random_of(call.seed + std::uint64_t(i)), call.patience);
    answer.end(answer.is_full() ? kFull : kOpen);
}

// A branch of the parameterised form at a value of the parameter, if it exists within the limits there.
struct Branch {
    const Arm& arm;
    Random random;  // separate numbers, because a failed branch must not change later rows
    double* q;
    bool exists = true;

    bool root(int, double square, double& root) {
        root = std::sqrt(square);
        return exists = square >= 0.0;
    }
    bool angle(int number, double y, double x) {
        const int j = arm.parameterised.joint(number);
        const Turns turns(arm.task.bounds, j, portable::atan2(y, x), 0.0, false);
        if (turns.n == 0) return exists = false;
        q[j] = within(arm.task.bounds, j, turns.at(turns.n == 1 ? 0 : Index(random.uniform() * double(turns.n))));
        return true;
    }
    bool direction(int number, double y, double x, double& cosine, double& sine) {
        const double size = portable::hypot(x, y);
        if (!(size > 0.0)) return exists = false;
        cosine = x / size, sine = y / size;
        return angle(number, y, x);
    }
};

// A branch in single precision. A branch is ruled out only if its failure cannot be due to rounding errors. Each test
// has a margin far above the rounding error of the tested value. At ill-conditioned branches, the walk ends without a
// decision.
struct Screen {
    const Arm& arm;
    float error, size;  // relative error; length [m]
    bool exists = true;

    bool root(int number, float square, float& root) {
        if (number == 1) square /= size * size;
        if (square < -1e2f * error) exists = false;
        root = std::sqrt(square) * (number == 1 ? size : 1.0f);
        return square > 1e3f * error;
    }
    bool angle(int number, float y, float x) {
        const Bounds<float>& bounds = arm.task.bounds_in<float>();
        const int j = arm.parameterised.joint(number);
        const float angle = y < 0.0f ? -angle_of(-y, x) : angle_of(y, x);
        const float least = std::ceil((bounds.lower[j] - kSlack - angle) / float(kTwoPi));
        const float most = std::floor((bounds.upper[j] + kSlack - angle) / float(kTwoPi));
        return exists = bounds.wraps[j] || least <= most;
    }
    bool direction(int number, float y, float x, float& cosine, float& sine) {
        const float length = std::sqrt(x * x + y * y);
        if (!(length > kShort * (number == 4 ? 1.0f : size * size))) return false;
        cosine = x / length, sine = y / length;
        return angle(number, y, x);
    }

    static constexpr float kSlack = 0.02f, kShort = 0.02f;  // [rad]; relative
};

inline void find_branches(const Request& call, std::int64_t i) {
    Answer answer(call, i);
    const Arm& arm = answer.arm;
    if (!is_rigid(answer.pose, kRigid)) return answer.end(kNotRigid);
    if (!answer.is_within_reach()) return answer.end(kOpen);
    double target[3][4], q[7];
    for (int k = 0; k < 12; ++k) target[k / 4][k % 4] = answer.pose[k];
    const ParameterisedForm::AtPose at(arm.parameterised, motion_of(target));
    const ParameterisedForm::SingleAtPose in_single(at);
    Random random = random_of(call.seed + std::uint64_t(i));
    const int held = arm.parameterised.held();
    const double least = arm.least[held], width = arm.most[held] - least;
    const auto try_branch = [&](double value, int branch) {
        ++random.state;
        if (call.screens) {
            Screen screen{arm, in_single.error(), in_single.size()};
            const SineCosine<float> turn = sine_and_cosine_of_small(float(value));
            in_single.walk(turn.cosine, turn.sine, branch, screen);
            if (!screen.exists) return false;
        }
        const portable::SineCosine turn = portable::sincos(value);
        Branch visit{arm, random_of(random.state), q};
        q[held] = value;
        at.walk(turn.cosine, turn.sine, branch, visit);
        return visit.exists && answer.add<7>(q);
    };
    for (int k = 0; k < kHeldBranches * call.n_values && !answer.is_full(); ++k) {
        try_branch(least + width * (k / kHeldBranches + 0.5) / call.n_values, k % kHeldBranches);
    }
    for (int n_failed = 0; call.n_values == 0 && n_failed < call.patience && !answer.is_full(); ++n_failed) {
        const double value = least + width * random.uniform();
        if (try_branch(value, int(kHeldBranches * random.uniform()))) n_failed = -1;
    }
    // at special poses, branches exist only at single values or in short ranges of the parameter
    if (call.n_values == 0 && !answer.is_full()) restart<7>(answer, random, call.patience / kBranchesOfRestart);
    answer.end(answer.is_full() ? kFull : kOpen);
}

}  // namespace eim::device
