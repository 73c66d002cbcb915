// Proof that traced curves are all self-motions of a pose, for any arm with seven revolute joints.
//
// The solutions lie on the curve f(s, t) = 0 of two joint angles (`general_7r/torus_polynomial.hpp`). The circle of s
// is divided into strips that overlap. No component of the curve lies inside a strip (`general_7r/strips.hpp`), so each
// self-motion crosses a slice. A slice is a fixed s in an overlap. At a slice, the zeros of a polynomial in t are
// isolated. If each zero belongs to a known curve, no other curves exist. Any other zero leads to a missing solution.
#pragma once

#include "certify/components.hpp"
#include "general_7r/general_7r.hpp"
#include "general_7r/strips.hpp"
#include "manifold/components.hpp"

namespace eim {

// The parts of a proof that depend only on the arm: its elimination, and a nominal arm in closed form.
struct CurveForms {
    General7R general;
    ParameterisedForm nominal;

    explicit CurveForms(const Chain& chain) : general(chain), nominal(parameterised_form(chain, true)) {}
    bool fits() const { return general.fits() || nominal.fits(); }
};

enum class Knowledge { all, missing, undecided };

class CurveProof {
   public:
    CurveProof(const General7R& arm, const Motion& target, int reading)
        : reading_(reading), f_(reading_.view.of(arm.loop(target)), reading_.place) {}

    // Divides the circle into strips and isolates the zeros of all slices. Returns false if some zeros are uncertain,
    // or if the deadline, a time of the steady clock [s], passes.
    bool prepare(double deadline, long most_looks) {
        if (!f_.is_regular()) return false;
        StripProof proof(f_, most_looks, deadline);
        const double half = kPi / kFirstStrips;
        for (int i = 0; i < kFirstStrips; ++i) {
            const double middle = kShift - kPi + (2 * i + 1) * half;
            proof.allow(most_looks / 2);  // a proof rarely succeeds if one strip needs more
            if (!divide(proof, middle, half, StripProof::whole_circle())) {
                share_ = proof.is_spent() ? double(i) / kFirstStrips : 0.0;
                return false;
            }
        }
        return true;
    }
    // Returns the share of the circle that was divided before the limit of cells was reached. Returns 0 if a higher
    // limit would not help.
    double share() const { return share_; }

    // Compares the slices with known curves. `is_known(q)` returns whether a solution is on one of the curves. If
    // solutions are missing, adds them to `roots`.
    template <class IsKnown>
    Knowledge compare(const std::vector<Curve>& curves, IsKnown is_known, Configurations& roots) const {
        std::vector<std::vector<double>> crossings(slices_.size());
        for (const Curve& curve : curves) {
            if (!curve.is_closed) return Knowledge::undecided;
            cross(curve, crossings);
        }
        for (std::size_t i = 0; i < slices_.size() && roots.size() < kEnoughRoots; ++i) {
            if (agree(slices_[i].zeros, crossings[i])) continue;
            if (!slices_[i].zeros.pairs.empty()) return Knowledge::undecided;
            // some of these zeros may be known, because cubics are inexact near turns
            const Configurations found = recovered(slices_[i]);
            if (found.size() < Index(slices_[i].zeros.certain.size())) return Knowledge::undecided;
            for (Index k = 0; k < found.size(); ++k) {
                if (!is_known(found.row(k))) roots.add(found.row(k));
            }
        }
        return roots.size() == 0 ? Knowledge::all : Knowledge::missing;
    }

   private:
    static constexpr int kFirstStrips = 24;
    static constexpr Index kEnoughRoots = 16;
    static constexpr double kNarrowestStrip = 1e-7;  // [rad]
    static constexpr double kOverlap = 0.05;         // share of the half width of a strip
    static constexpr double kSameCrossing = 0.02;    // [rad]: largest error of t on a cubic

    struct Strip {
        double middle, half;
    };
    struct Slice {
        double at;
        StripProof::Zeros zeros;
    };

    bool divide(StripProof& proof, double middle, double half, std::vector<StripProof::Cell> cells) {
        if (proof.holds(middle, (1.0 + 2.0 * kOverlap) * half, cells)) {
            const double before = strips_.empty() ? kNarrowestStrip : strips_.back().half;
            if (add_slice(proof, middle - half, kOverlap * std::min(half, before), cells)) {
                strips_.push_back({middle, half});
                return true;
            }
        }
        if (half < kNarrowestStrip || proof.is_spent()) return false;
        return divide(proof, middle - 0.5 * half, 0.5 * half, cells) &&
               divide(proof, middle + 0.5 * half, 0.5 * half, cells);
    }

    // Adds a slice near an edge of a strip. All zeros of the slice are certain.
    bool add_slice(const StripProof& proof, double edge, double reach, const std::vector<StripProof::Cell>& cells) {
        for (const double offset : {0.0, 0.5, -0.5, 1.0, -1.0}) {
            Slice slice{edge + offset * reach, {}};
            if (!proof.zeros(slice.at, cells, slice.zeros)) continue;
            slices_.push_back(std::move(slice));
            return true;
        }
        return false;
    }

    // Computes t at each crossing of a curve with each slice, and adds it to the crossings of the slice.
    void cross(const Curve& curve, std::vector<std::vector<double>>& crossings) const {
        const int joint = reading_.joint_of_s(), other = reading_.joint_of_t();
        const double sign = reading_.view.sign();
        for (int i = 0; i < curve.n_segments(); ++i) {
            const Segment part = curve.segment(i);
            double at[4];
            const int n = part.extremes(joint, at);
            for (int k = 0; k + 1 < n; ++k) {
                const double from = sign * part.at(joint, at[k]), to = sign * part.at(joint, at[k + 1]);
                const double least = std::min(from, to), most = std::max(from, to);
                for (std::size_t s = 0; s < slices_.size(); ++s) {
                    double x = slices_[s].at + kTwoPi * std::ceil((least - slices_[s].at) / kTwoPi);
                    for (; x < most; x += kTwoPi) {
                        double low = at[k], high = at[k + 1];
                        for (int halving = 0; halving < 20; ++halving) {
                            const double middle = 0.5 * (low + high);
                            ((sign * part.at(joint, middle) < x) == (from < to) ? low : high) = middle;
                        }
                        crossings[s].push_back(sign * part.at(other, 0.5 * (low + high)));
                    }
                }
            }
        }
    }

    // Removes the crossing nearest to an angle from a list. Returns false if no crossing is near.
    static bool take(double place, std::vector<double>& crossings) {
        const auto away = [place](double t) { return std::abs(wrapped_angle(t - place)); };
        const auto nearest =
            std::min_element(crossings.begin(), crossings.end(), [&](double a, double b) { return away(a) < away(b); });
        if (nearest == crossings.end() || !(away(*nearest) < kSameCrossing)) return false;
        *nearest = crossings.back(), crossings.pop_back();
        return true;
    }
    // Whether the crossings match the zeros, with one crossing per certain zero and two per pair. A pair has at most
    // two zeros.
    static bool agree(const StripProof::Zeros& zeros, std::vector<double>& crossings) {
        const auto has = [&](double place) { return take(place, crossings); };
        return std::all_of(zeros.certain.begin(), zeros.certain.end(), has) &&
               std::all_of(zeros.pairs.begin(), zeros.pairs.end(), [&](double p) { return has(p) && has(p); }) &&
               crossings.empty();
    }

    // Returns the solutions at the zeros of a slice.
    Configurations recovered(const Slice& slice) const {
        const Loop loop = f_.rest(slice.at);
        const int place = reading_.place;
        const std::vector<double>& zeros = slice.zeros.certain;
        LoopSolutions found;
        recover_all(Elimination(loop), loop, loop, LoopView<6>(0), zeros.data(), int(zeros.size()), found);
        Configurations rows{7};
        for (int i = 0; i < found.n; ++i) {
            double q[7];
            for (int k = 0; k < 7; ++k) {
                const double angle = k == place ? slice.at : found.angles[i][k < place ? k : k - 1];
                q[reading_.view.joint(k)] = reading_.view.sign() * angle;
            }
            rows.add(q);
        }
        return rows;
    }

    Reading reading_;
    TorusPolynomial f_;
    double share_ = 0.0;
    std::vector<Strip> strips_;
    std::vector<Slice> slices_;
};

}  // namespace eim
