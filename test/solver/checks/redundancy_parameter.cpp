// Checks of self-motions as functions of one joint. The branches must contain each configuration, and bounds must hold
// over cells.
#include "certify/components.hpp"
#include "checks.hpp"
#include "search/self_motions.hpp"

using namespace eim;

namespace {

// Returns a random arm in which the axes of joints 4 to 6 meet, and the axes of joints 1 and 2 meet. If `ball_first` is
// true, the order is reversed.
Chain ball_arm(bool ball_first, std::uint64_t seed) {
    Chain chain = arm(7, Joints::plain, seed);
    for (int i : {ball_first ? 1 : 2, ball_first ? 2 : 5, ball_first ? 5 : 6}) {
        std::fill_n(chain.links[i].translation, 3, 0.0);
        std::fill_n(chain.single[i].translation, 3, 0.0f);
    }
    return chain;
}

// Returns an arm whose links differ from those of `ball_arm` by up to `off`. The axes of this arm only nearly meet.
Chain nearly_ball_arm(bool ball_first, std::uint64_t seed, double off) {
    const Chain chain = ball_arm(ball_first, seed);
    Random random(double(seed) / 97.0);
    double rows[8][16] = {};
    for (int i = 0; i < 8; ++i) {
        std::copy_n(chain.links[i].rotation, 9, rows[i]), rows[i][13] = i, rows[i][14] = 1.0;
        for (int k = 0; k < 3; ++k) {
            rows[i][9 + k] = chain.links[i].translation[k] + (i > 0 && i < 7 ? off * random.uniform(-1.0, 1.0) : 0.0);
        }
    }
    return {&rows[0][0], 8, 7};
}

Motion pose_at(const Chain& chain, const double* q) {
    Kinematics<double, 7> at;
    forward<7>(chain, q, at);
    return motion_of(at.tip);
}

// Calls function(form, chain, configuration, configuration in the order of reading) for nominal forms of arms from
// `nearly_ball_arm`.
template <class Function>
void for_nominal_arms(Function function) {
    for (int k = 0; k < 60; ++k) {
        const double offs[] = {1e-8, 1e-5, 1e-3};
        const Chain chain = nearly_ball_arm(k % 2 == 0, std::uint64_t(k + 1), offs[k % 3]);
        const ParameterisedForm form = parameterised_form(chain, true);
        claim(!parameterised_form(chain).fits(), "the axes do not meet");
        claim(form.fits() && form.gap() > 0.0 && form.gap() < 12.0 * offs[k % 3], "there is a nominal arm");
        Random random(double(k) / 61.0);
        double q[7], read[7];
        for (double& angle : q) angle = random.uniform(-kPi, kPi);
        for (int i = 0; i < 7; ++i) read[i] = q[form.joint(i)];
        function(form, chain, q, read);
    }
}

// Bounds of a branch in a cell, together with the data that bounds of rates need.
struct BoundsWithShape : BranchBoundsOf<EnclosedNear> {
    EnclosedNear roots[3];
    BranchShape shape;

    bool root(int number, const EnclosedNear& square, EnclosedNear& root) {
        BranchBoundsOf::root(number, square, root), roots[number] = root;
        return true;
    }
};

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
        agree(least, 0.0, 1e-6, "the nearest branch");  // square root of rounding errors where branches nearly meet
    });
}

CHECK(bounds_of_a_cell_hold_all_over_it) {
    int n_compared = 0;
    for_random_poses([&](const ParameterisedForm&, const ParameterisedForm::AtPose& pose, const double* q,
                         Random& random) {
        for (double half : {0.1, 1e-2, 1e-3, 1e-6}) {
            // the cell contains q[0], so the branch of q exists in part of the cell
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
                    if (!(std::min({s[0], s[1], s[2]}) > 1e-6)) break;  // angles are inaccurate if a square is near 0
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

CHECK(bounds_of_a_nominal_arm_hold_for_the_arm) {
    int n_complete = 0;
    for_nominal_arms([&](const ParameterisedForm& form, const Chain& chain, const double* q, const double* read) {
        const ParameterisedForm::AtPose pose(form, pose_at(chain, q), Offsets::within(form.gap()));
        for (const double half : {1e-2, 1e-4, 0.0}) {
            bool is_known = false;  // whether q is within the bounds of a branch, or on a branch without bounds
            for (int branch = 0; branch < kHeldBranches; ++branch) {
                BranchBoundsOf<EnclosedNear> bounds;
                const EnclosedTurnOf<double, WideDouble> turn(read[0] + 0.7 * half, half);
                pose.walk<EnclosedNear>(turn.cosine, turn.sine, branch, bounds);
                bool is_within = true;
                for (int i = 1; i < 7 && bounds.is_complete(); ++i) {
                    const double off = wrapped(read[i] - bounds.angles[i].value, kTwoPi, 1.0 / kTwoPi);
                    is_within &= std::abs(off) <= bounds.angles[i].radius;
                }
                is_known |= is_within, n_complete += is_within && bounds.is_complete();
            }
            claim(is_known, "the configuration is within the bounds of a branch");
        }
    });
    claim(n_complete > 100, "most branches have bounds");
}

CHECK(rates_of_gaps_are_bounded) {
    constexpr double h = 1e-6;
    int n_compared = 0;
    for_nominal_arms([&](const ParameterisedForm& form, const Chain& chain, const double* q, const double* read) {
        const Motion target = pose_at(chain, q);
        const ParameterisedForm::AtPose pose(form, target, Offsets::within(1e-9));
        const double x = read[0];
        for (int branch = 0; branch < kHeldBranches; ++branch) {
            const auto angles = [&](const Motion& at_target, double at, double (&all)[7]) {
                BranchPoint point;
                ParameterisedForm::AtPose(form, at_target).walk<double>(std::cos(at), std::sin(at), branch, point);
                std::copy_n(point.angles, 7, all);
                return std::min({point.squares[0], point.squares[1], point.squares[2]});
            };
            const auto rates = [&](const double (&before)[7], const double (&after)[7], double (&all)[7]) {
                for (int i = 1; i < 7; ++i) all[i] = wrapped(after[i] - before[i], kTwoPi, 1.0 / kTwoPi) / (2.0 * h);
            };
            BoundsWithShape bounds;
            const EnclosedTurnOf<double, WideDouble> turn(x, h);
            pose.walk<EnclosedNear>(turn.cosine, turn.sine, branch, bounds);
            const EnclosedNear& level = bounds.shape.level;
            const double by_first = (std::abs(level.slope[0]) - level.spread[0]) / (h * (1.0 + 1e-9) + 1e-15);
            double before[7], after[7], along[7];
            if (!(std::min(angles(target, x - h, before), angles(target, x + h, after)) > 1e-3)) continue;
            rates(before, after, along);
            for (int axis = 0; axis < 3; ++axis) {
                const Vector u{axis == 0 ? h : 0.0, axis == 1 ? h : 0.0, axis == 2 ? h : 0.0};
                double by_pose[7] = {};
                Motion less = target, more = target;
                less.translation = less.translation - u, more.translation = more.translation + u;
                angles(less, x, before), angles(more, x, after), rates(before, after, by_pose);
                for (int still = -1; still < 3; ++still) {  // root whose joint is fixed while q_1 moves, or -1
                    const int joint = still == 0 ? 3 : still == 1 ? 2 : 5;
                    const double move = still < 0 ? 0.0 : -by_pose[joint] / along[joint];
                    double speeds[7] = {std::abs(move)}, all = std::abs(move), before_gap = 0.0, sum = 0.0;
                    for (int i = 1; i < 7; ++i) all += speeds[i] = std::abs(by_pose[i] + move * along[i]);
                    for (int i = 0; i < 7; ++i) {
                        sum += form.gaps()[i] * std::min(before_gap, all - before_gap), before_gap += speeds[i];
                    }
                    const double bound = pose.rate_of_gaps(bounds.shape, bounds.roots, turn.cosine, turn.sine,
                                                           std::max(by_first, 0.0), branch, still);
                    claim(!(sum > bound * (1.0 + 1e-3)), "the rate of the gaps");
                    ++n_compared;
                }
            }
        }
    });
    claim(n_compared > 500, "enough was compared");
}

CHECK(bounds_hold_for_translated_poses) {
    int n_compared = 0;
    for_nominal_arms([&](const ParameterisedForm& form, const Chain& chain, const double* q, const double* read) {
        const Motion target = pose_at(chain, q);
        Random random(0.5 + 0.1 * q[1]);
        const auto some = [&](double size) {
            return Vector{random.uniform(-size, size), random.uniform(-size, size), random.uniform(-size, size)};
        };
        const Offsets offsets{some(1e-2), {some(3e-3), some(1e-3), some(1e-4)}};
        const ParameterisedForm::AtPose pose(form, target, offsets);
        const double half = 1e-2, at = read[0];
        for (int branch = 0; branch < kHeldBranches; ++branch) {
            BranchBoundsOf<EnclosedNear> bounds;
            const EnclosedTurnOf<double, WideDouble> turn(at, half);
            pose.walk<EnclosedNear>(turn.cosine, turn.sine, branch, bounds);
            const auto point = [&](const double (&x)[4], BranchPoint& made) {
                Offsets there{offsets.middle, {}};
                for (int k = 0; k < 3; ++k) there.middle = there.middle + offsets.sides[k] * x[k + 1];
                const double angle = at + half * x[0];
                ParameterisedForm::AtPose(form, target, there)
                    .walk<double>(std::cos(angle), std::sin(angle), branch, made);
            };
            for (int i = 0; i < 20 && bounds.is_complete(); ++i) {
                double x[4], y[4];
                for (int k = 0; k < 4; ++k) x[k] = y[k] = random.uniform(-0.9, 0.9);
                const int variable = i % 4;
                y[variable] += 0.1;
                BranchPoint first, second;
                point(x, first), point(y, second);
                if (!(std::min({first.squares[0], first.squares[1], first.squares[2]}) > 1e-6)) continue;
                const auto compare = [&](double before, double after, const EnclosedNear& of) {
                    const double off = wrapped(before - of.value, kTwoPi, 1.0 / kTwoPi);
                    const double rise = wrapped(after - before, kTwoPi, 1.0 / kTwoPi) - 0.1 * of.slope[variable];
                    claim(std::abs(off) <= of.radius + 1e-12, "a value");
                    claim(std::abs(rise) <= 0.1 * of.spread[variable] + 1e-11, "a slope");
                    ++n_compared;
                };
                for (int k = 0; k < 3; ++k) compare(first.squares[k], second.squares[k], bounds.squares[k]);
                for (int k = 1; k < 7; ++k) compare(first.angles[k], second.angles[k], bounds.angles[k]);
            }
        }
    });
    claim(n_compared > 5000, "enough was compared");
}

// Returns the determinant of J J^T. The argument contains the columns of J.
double gram(const double (&columns)[7][6]) {
    double l[6][6], determinant = 1.0;
    for (int a = 0; a < 6; ++a) {
        for (int b = 0; b <= a; ++b) {
            double sum = 0.0;
            for (const auto& column : columns) sum += column[a] * column[b];
            for (int c = 0; c < b; ++c) sum -= l[a][c] * l[b][c];
            l[a][b] = a == b ? std::sqrt(sum) : sum / l[b][b];
        }
        determinant *= l[a][a] * l[a][a];
    }
    return determinant;
}

CHECK(lines_and_translations_between_arms_are_those_of_the_arms) {
    for_nominal_arms([&](const ParameterisedForm& form, const Chain& chain, const double* q, const double* read) {
        const ArmsBetween arms(form);
        const Motion target = pose_at(chain, q);
        AngleBox box;
        std::copy_n(read, 7, box.middle);
        double lines[7][6];
        arms.lines(box.middle, 1.0, lines);
        Kinematics<double, 7> at;
        forward<7>(chain, q, at), differentiate<7>(chain, at);
        double columns[7][6];
        for (int j = 0; j < 7; ++j) std::copy_n(at.jacobian[j], 6, columns[j]);
        const double ratio = gram(lines) * std::pow(arms.unit(), 6.0) / gram(columns);
        claim(std::abs(ratio - 1.0) < 1e-6, "the lines are those of the Jacobian");

        double off;
        const ParameterisedForm::AtPose unmoved(form, target);
        const Vector translation = arms.translation(box, unmoved.rotation(), off);
        double away = 1e300;  // distance from the nearest branch of the nominal arm for the translated pose
        for (int branch = 0; branch < kHeldBranches; ++branch) {
            BranchPoint point;
            ParameterisedForm::AtPose(form, target, {translation * -1.0, {}})
                .walk<double>(std::cos(read[0]), std::sin(read[0]), branch, point);
            double most = 0.0;
            for (int i = 1; i < 7; ++i) {
                most = std::max(most, std::abs(wrapped(point.angles[i] - read[i], kTwoPi, 1.0 / kTwoPi)));
            }
            away = std::min(away, most);
        }
        claim(away < 1e-9, "the translated pose of the nominal arm has the same configuration");
    });
}

CHECK(changes_of_lines_between_arms_are_bounded) {
    int n_full = 0;
    for_nominal_arms([&](const ParameterisedForm& form, const Chain& chain, const double* q, const double* read) {
        const ArmsBetween arms(form);
        const ParameterisedForm::AtPose pose(form, pose_at(chain, q));
        Random random(0.5 + 0.1 * q[2]);
        for (const double size : {3.0, 0.3, 0.03, 1e-4}) {  // gaps that turn far are bounded by their size
            AngleBox box;
            for (int i = 0; i < 7; ++i) box.middle[i] = read[i], box.radius[i] = random.uniform(0.0, size);
            const Shares shares{0.25, 0.75};
            double lines[7][6], others[7][6], sizes[7], off, none;
            arms.lines(box.middle, shares.middle(), lines), arms.changes(box, shares, sizes);
            const Vector translation = arms.translation(box, pose.rotation(), off);
            const bool is_full = arms.have_full_rank(box, shares);
            n_full += is_full;
            for (int k = 0; k < 50; ++k) {
                AngleBox point;
                for (int i = 0; i < 7; ++i) {
                    const double share = k % 2 ? random.uniform(-1.0, 1.0) : random.uniform() < 0.5 ? -1.0 : 1.0;
                    point.middle[i] = box.middle[i] + share * box.radius[i];
                }
                arms.lines(point.middle, random.uniform(shares.least, shares.most), others);
                for (int i = 0; i < 7; ++i) {
                    double square = 0.0;
                    for (int a = 0; a < 6; ++a) square += (others[i][a] - lines[i][a]) * (others[i][a] - lines[i][a]);
                    claim(std::sqrt(square) <= sizes[i], "the change of a line");
                }
                claim(!is_full || gram(others) > 0.0, "the rank is 6");
                const Vector moved = arms.translation(point, pose.rotation(), none) - translation;
                claim(length(moved) <= off, "the translation");
            }
        }
    });
    claim(n_full > 50, "small boxes have full rank");
}

CHECK(no_arm_between_is_lost_when_shares_are_narrowed) {
    Random random(0.37);
    const auto some = [&](double size) {
        return Vector{random.uniform(-size, size), random.uniform(-size, size), random.uniform(-size, size)};
    };
    int n_excluded = 0, n_narrower = 0;
    for (int k = 0; k < 20000; ++k) {
        const Translations moved{some(k % 3 == 0 ? 1e-9 : 1.0), k % 2 ? random.uniform(0.0, 0.2) : 0.0};
        const double a = random.uniform(), b = random.uniform(), c = random.uniform(), d = random.uniform();
        const Shares all{std::min(a, b), std::max(a, b)}, part{std::min(c, d), std::max(c, d)};
        const double share = all.least + random.uniform() * (all.most - all.least);
        const Vector off = some(1.0),
                     at = (moved.middle + off * (moved.radius * random.uniform() / length(off))) * -share;
        const Offsets own = offsets_of(part, moved);
        for (const Vector& side : own.sides) {
            const bool is_own = part.least <= share && share <= part.most;
            claim(!is_own || std::abs(dot(at - own.middle, side)) <= dot(side, side) + 1e-15, "offsets of the share");
        }
        for (const Offsets& offsets :
             {own, Offsets::within(random.uniform(0.0, 2.0)), Offsets{some(1.0), {some(0.3), some(0.3), some(0.3)}}}) {
            const Vector away = at - offsets.middle, *s = offsets.sides;
            const double volume = dot(cross(s[0], s[1]), s[2]);
            const double x[] = {dot(cross(away, s[1]), s[2]) / volume, dot(cross(s[0], away), s[2]) / volume,
                                dot(cross(s[0], s[1]), away) / volume};
            const bool is_among = std::abs(x[0]) <= 1.0 && std::abs(x[1]) <= 1.0 && std::abs(x[2]) <= 1.0;
            Shares left = all;
            const bool is_possible = narrow(left, offsets, moved, 1e-14);
            if (is_among) {
                claim(is_possible && left.least <= share && share <= left.most, "the share remains");
            }
            n_excluded += !is_possible, n_narrower += left.half() < 0.5 * all.half();
        }
    }
    claim(n_excluded > 1000 && n_narrower > 1000, "shares are excluded");
}

CHECK(an_arm_has_as_many_curves_as_its_nominal_arm) {
    constexpr double never = std::numeric_limits<double>::infinity();
    int n_proven = 0;
    for_nominal_arms([&](const ParameterisedForm& form, const Chain& chain, const double* q, const double*) {
        const Task task = reachable(chain, 0.5 + 0.1 * q[0]);
        SelfMotions long_search(chain, task, 0.3), proven(chain, task, 0.3);
        long_search.search<7>(chain, {0.999, 0.002, never, kEffort});
        if (!proven.prove(chain, form, never)) return;  // the proof starts without curves
        ++n_proven;
        claim(proven.components().size() == long_search.components().size(), "a long search finds as many curves");
    });
    claim(n_proven > 30, "most are proven");
}
