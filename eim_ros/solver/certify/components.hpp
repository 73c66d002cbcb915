// Search for all components of the solution set of a pose in closed form, with a proof that none is missing. Pieces of
// branches are proven to be complete, and are joined where they meet.
//
// The method does not use samples. A component is a chain of pieces (`cells.hpp`) from one limit to another, or back to
// its start. Configurations along a component are values of the branches.
#pragma once

#include "certify/cells.hpp"
#include "certify/isotopy.hpp"
#include "closed_form/finite_solutions.hpp"
#include "manifold/components.hpp"

namespace eim {

// [rad] of the redundancy parameter: distance between the meeting point of two branches and the nearest place
inline constexpr double kBesideTurn = 1e-10;
inline constexpr double kLeastAligned = 0.94;  // least cosine of the angle between successive tangents
inline constexpr double kPlaceError = 1e-6;    // [m], [rad]: largest error of a solution
inline constexpr int kMostHalved = 40;

// Whether the cubic between two places is accurate, given their difference [rad] and both unit tangents.
inline bool is_smooth(const double (&chord)[7], const double* from, const double* to) {
    double square = 0.0, cosine = 0.0, skew = 0.0;
    for (int j = 0; j < 7; ++j) square += chord[j] * chord[j], cosine += from[j] * to[j];
    const double by_mean = std::sqrt(square / std::max(2.0 + 2.0 * cosine, 1e-9));
    for (int j = 0; j < 7; ++j) {
        const double off = chord[j] - by_mean * (from[j] + to[j]);
        skew += off * off;
    }
    return cosine >= kLeastAligned && skew <= kMostSkew * kMostSkew * square + kSame * kSame;
}

// Builds the parameterised form of a chain with seven revolute joints from its axes and its tip at zero. The axes of a
// nominal form only need to nearly meet.
inline ParameterisedForm parameterised_form(const Chain& chain, bool is_nominal = false) {
    if (chain.kind != 7) return {};
    Kinematics<double, 7> at;
    const double zero[7] = {};
    forward<7>(chain, zero, at);
    Line axes[7];
    for (int i = 0; i < 7; ++i) {
        const double *axis = at.axis[i], *origin = at.origin[i];
        axes[i] = {{axis[0], axis[1], axis[2]}, {origin[0], origin[1], origin[2]}};
    }
    return {axes, motion_of(at.tip), is_nominal};
}

class CertifiedComponents {
   public:
    CertifiedComponents(const Chain& chain, const ParameterisedForm& form, const Task& task)
        : chain_(chain), form_(form), task_(task), pose_(form, motion_of(task.target)) {
        for (int i = 0; i < 7; ++i) {
            const double lower = task.bounds.lower[form.joint(i)], upper = task.bounds.upper[form.joint(i)];
            windows_[i] = {0.5 * (lower + upper), 0.5 * (upper - lower), task.bounds.wraps[form.joint(i)]};
        }
    }

    // Calls adopt(places, tangents, is_closed) for each component. Returns false if a cell or a join was not decided.
    // Components of a nominal arm are not solutions of the actual arm.
    template <class Adopt>
    bool run(Adopt adopt) {
        if (!decide()) return false;
        std::vector<std::uint8_t> is_done(pieces_.size(), 0);
        for (const bool from_ends : {true, false}) {  // the remaining components are closed
            for (int first = 0; first < int(pieces_.size()); ++first) {
                if (is_done[first]) continue;
                const bool is_begin = next_[first][0].piece < 0;
                if (from_ends && !is_begin && next_[first][1].piece >= 0) continue;
                if (!follow(first, from_ends && !is_begin ? 1 : 0, is_done)) return false;
                adopt(places_, tangents_, !from_ends);
            }
        }
        return true;
    }

    // Adds one place on each component of a nominal arm, in the middle of its longest piece. Returns false if a cell or
    // a join was not decided, or if a component is not closed.
    bool places_of_all(Configurations& places) {
        if (!decide() || (form_.gap() > 0.0 && !Isotopy(form_, motion_of(task_.target)).holds())) return false;
        std::vector<std::uint8_t> is_done(pieces_.size(), 0);
        const auto width = [&](int i) { return pieces_[i].ends[1] - pieces_[i].ends[0]; };
        for (int first = 0; first < int(pieces_.size()); ++first) {
            if (is_done[first]) continue;
            int longest = first;
            Link at{first, 0};
            do {
                is_done[at.piece] = 1;
                if (width(at.piece) > width(longest)) longest = at.piece;
                at = next_[at.piece][1 - at.end];
            } while (at.piece >= 0 && at.piece != first);
            if (at.piece < 0) return false;
            const BranchPiece& piece = pieces_[longest];
            places.add(place(piece.branch, 0.5 * (piece.ends[0] + piece.ends[1]), 1.0).q);
        }
        return true;
    }

    int n_cells() const { return n_cells_; }

   private:
    struct Link {
        int piece = -1, end = 0;
    };

    // Finds all pieces and joins them, once.
    bool decide() {
        if (is_decided_) return true;
        pieces_.clear();
        HeldCells cells(pose_, windows_);
        is_decided_ = cells.run(pieces_) && join(cells.lower(), cells.upper());
        n_cells_ = cells.n_cells();
        return is_decided_;
    }

    // Links pieces that continue each other or meet. Returns false if a piece has no unique partner.
    bool join(double lower, double upper) {
        next_.assign(pieces_.size(), {});
        const auto link = [&](int a, int end_of_a, int b, int end_of_b) {
            next_[a][end_of_a] = {b, end_of_b}, next_[b][end_of_b] = {a, end_of_a};
        };
        for (int a = 0; a < int(pieces_.size()); ++a) {
            for (int end = 0; end < 2; ++end) {
                const BranchPiece& piece = pieces_[a];
                if (piece.kinds[end] == PieceEnd::limit || next_[a][end].piece >= 0) continue;
                const int other = piece.kinds[end] == PieceEnd::cell
                                      ? piece.branch
                                      : piece.branch ^ 1 << (int(piece.kinds[end]) - int(PieceEnd::first_turn));
                const int wanted = piece.kinds[end] == PieceEnd::cell ? 1 - end : end;
                int found = -1;
                for (int b = 0; b < int(pieces_.size()); ++b) {
                    if (pieces_[b].branch != other || pieces_[b].kinds[wanted] != piece.kinds[end]) continue;
                    double away = std::abs(pieces_[b].ends[wanted] - piece.ends[end]);
                    if (windows_[0].is_endless) away = std::min(away, std::abs(away - (upper - lower)));
                    if (away > kToldApart) continue;
                    if (found >= 0) return false;
                    found = b;
                }
                if (found < 0 || next_[found][wanted].piece >= 0) return false;
                link(a, end, found, wanted);
            }
        }
        return true;
    }

    // Fills places along the component of a piece, starting at one end of the piece. Returns false if a place is not a
    // solution.
    bool follow(int first, int end, std::vector<std::uint8_t>& is_done) {
        places_.positions.clear(), tangents_.positions.clear();
        Link at{first, end};
        do {
            is_done[at.piece] = 1;
            const BranchPiece& piece = pieces_[at.piece];
            double ends[2];
            for (int k = 0; k < 2; ++k) {
                const double aside = std::min(kBesideTurn, 0.25 * (piece.ends[1] - piece.ends[0]));
                const bool is_turn = piece.kinds[k] != PieceEnd::cell && piece.kinds[k] != PieceEnd::limit;
                ends[k] = piece.ends[k] + (is_turn ? (k == 0 ? aside : -aside) : 0.0);
            }
            const double sign = at.end == 0 ? 1.0 : -1.0;
            const Place begin = place(piece.branch, ends[at.end], sign),
                        last = place(piece.branch, ends[1 - at.end], sign);
            if (at.piece == first) add(begin);
            fill(piece.branch, sign, begin, last, 0);
            at = next_[at.piece][1 - at.end];
        } while (at.piece >= 0 && at.piece != first);
        if (form_.gap() > 0.0) return true;
        Rows rows{places_};
        measure_rows<7>(chain_, task_, rows);
        for (Index i = 0; i < rows.size(); ++i) {
            if (!(std::max(rows.distances[i], rows.angles[i]) <= kPlaceError)) return false;
        }
        return true;
    }

    struct Place {
        double held, q[7], tangent[7];
    };

    Place place(int branch, double held, double sign) const {
        constexpr double half = 1e-12;
        BranchBounds bounds;
        const EnclosedTurn turn(held, half);
        pose_.walk<Enclosed>(turn.cosine, turn.sine, branch, bounds);
        Place made{held, {}, {}};
        double square = 0.0;
        for (int i = 0; i < 7; ++i) {
            const double angle = i == 0 ? held : bounds.angles[i].value, slope = i == 0 ? half : bounds.angles[i].slope;
            const int j = form_.joint(i);
            made.q[j] = within(task_.bounds, j, windows_[i].centre + windows_[i].offset(angle));
            made.tangent[j] = sign * slope, square += slope * slope;
        }
        for (double& part : made.tangent) part /= std::sqrt(square);
        return made;
    }

    void add(const Place& place) { places_.add(place.q), tangents_.add(place.tangent); }

    // Adds the places between two places, and the second place.
    void fill(int branch, double sign, const Place& from, const Place& to, int n_halved) {
        double square = 0.0, chord[7];
        for (int j = 0; j < 7; ++j) {
            chord[j] = difference(to.q[j], from.q[j], task_.bounds.wraps[j]);
            square += chord[j] * chord[j];
        }
        const bool is_close = square <= kLongestSegment * kLongestSegment &&
                              is_smooth(chord, from.tangent, to.tangent) && std::abs(to.held - from.held) < kPi;
        if (is_close || n_halved == kMostHalved) return add(to);
        const Place middle = place(branch, 0.5 * (from.held + to.held), sign);
        fill(branch, sign, from, middle, n_halved + 1);
        fill(branch, sign, middle, to, n_halved + 1);
    }

    const Chain& chain_;
    const ParameterisedForm& form_;
    const Task& task_;
    ParameterisedForm::AtPose pose_;
    Window windows_[7];
    std::vector<BranchPiece> pieces_;
    std::vector<std::array<Link, 2>> next_;  // for each piece, the links at both ends
    Configurations places_{7}, tangents_{7};
    int n_cells_ = 0;
    bool is_decided_ = false;
};

}  // namespace eim
