// Self-motions as functions of one joint: the branches contain every configuration, and bounds hold over cells.
#include "certify/components.hpp"
#include "checks.hpp"

using namespace eim;

namespace {

// A random arm in which the axes of joints 4 to 6 meet, and those of joints 1 and 2, or the same in reverse order.
Chain ball_arm(bool ball_first, std::uint64_t seed) {
    Chain chain = arm(7, Joints::plain, seed);
    for (int i : {ball_first ? 1 : 2, ball_first ? 2 : 5, ball_first ? 5 : 6}) {
        std::fill_n(chain.links[i].translation, 3, 0.0);
        std::fill_n(chain.single[i].translation, 3, 0.0f);
    }
    return chain;
}

// Calls function(form, form at the pose of a random q, q in the order of the form) for 40 arms.
template <class Function>
void for_random_poses(Function function) {
    for (int k = 0; k < 40; ++k) {
        const bool ball_first = k % 2 == 0;
        const Chain chain = ball_arm(ball_first, std::uint64_t(k + 1));
        const ParameterisedForm form = parameterised_form(chain);
        claim(form.fits() && form.is_reversed == ball_first, "the form of the arm is recognised");
        Random random(double(k) / 41.0);
        double q[7], read[7];
        for (double& angle : q) angle = random.uniform(-kPi, kPi);
        for (int i = 0; i < 7; ++i) read[i] = q[form.joint(i)];
        Kinematics<double, 7> at;
        forward<7>(chain, q, at);
        function(form, ParameterisedForm::AtPose(form, motion_of(at.tip)), read, random);
    }
}

}  // namespace

CHECK(each_configuration_is_on_a_branch_of_its_pose) {
    for_random_poses([](const ParameterisedForm&, const ParameterisedForm::AtPose& pose, const double* q, Random&) {
        double least = kPi;
        for (int branch = 0; branch < kHeldBranches; ++branch) {
            BranchPoint point;
            pose.walk<double>(std::cos(q[0]), std::sin(q[0]), branch, point);
            point.angles[0] = q[0];
            least = std::min(least, largest_difference(point.angles, q, 7));
        }
        agree(least, 0.0, 1e-6, "the nearest branch");  // square root of the rounding, where branches nearly meet
    });
}

CHECK(bounds_of_a_cell_hold_all_over_it) {
    int n_compared = 0;
    for_random_poses([&](const ParameterisedForm&, const ParameterisedForm::AtPose& pose, const double* q,
                         Random& random) {
        for (double half : {0.1, 1e-2, 1e-3, 1e-6}) {
            // the cell contains q[0], so the branch of q exists in a part of it
            const double middle = q[0] + random.uniform(-0.9, 0.9) * half;
            for (int branch = 0; branch < kHeldBranches; ++branch) {
                BranchBounds bounds;
                const EnclosedTurn turn(middle, half);
                pose.walk<Enclosed>(turn.cosine, turn.sine, branch, bounds);
                if (!bounds.is_complete()) continue;
                BranchPoint before;
                for (int step = 0; step <= 20; ++step) {
                    const double t = -1.0 + 0.1 * step;
                    BranchPoint point;
                    pose.walk<double>(std::cos(middle + t * half), std::sin(middle + t * half), branch, point);
                    const double* s = point.squares;
                    for (int i = 0; i < 3; ++i) {
                        claim(std::abs(s[i] - bounds.squares[i].value) <= bounds.squares[i].radius + 1e-14, "a square");
                    }
                    if (!(std::min({s[0], s[1], s[2]}) > 1e-6)) break;  // near 0, doubles are inaccurate
                    for (int i = 1; i < 7; ++i) {
                        const Enclosed& of = bounds.angles[i];
                        const double off = wrapped(point.angles[i] - of.value, kTwoPi, 1.0 / kTwoPi);
                        claim(std::abs(off) <= of.radius + 1e-12, "an angle");
                        if (step == 0) continue;
                        const double rise = wrapped(point.angles[i] - before.angles[i], kTwoPi, 1.0 / kTwoPi);
                        claim(std::abs(rise - 0.1 * of.slope) <= 0.1 * of.spread + 1e-11, "a slope");
                        ++n_compared;
                    }
                    before = point;
                }
            }
        }
    });
    claim(n_compared > 10000, "enough was compared");
}
