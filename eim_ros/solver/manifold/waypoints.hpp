// Places on the components of a solution set. A place is close to a solution, but is not yet corrected to the pose.
#pragma once

#include "manifold/components.hpp"
#include "numerics/clock.hpp"
#include "numerics/random.hpp"

namespace eim {

// number of places between two checks of the clock; computing them takes less than a millisecond
inline constexpr Index kPlacesBeforeLook = 4096;

// A configuration, and its squared distance from a reference.
struct Nearby {
    double square;
    std::vector<double> q;
};

class Waypoints {
   public:
    // `bounds` are the limits of the task. Random places advance `random`.
    Waypoints(const CurveComponents& components, const Bounds<double>& bounds, int n_joints, Random& random)
        : components_(components), bounds_(bounds), n_joints_(n_joints), random_(random) {}

    // Returns configurations that divide the components. Successive configurations differ by about `finest` in some
    // joint. The number of configurations is limited to about `most`.
    Configurations filled(double finest, Index most) const {
        double parts = 0.0;
        for (const bool counts : {true, false}) {
            const double wider = counts ? 1.0 : std::max(1.0, parts / double(std::max<Index>(most, 1)));
            Configurations rows{n_joints_};
            for (const Component& component : components_.components()) {
                for (const Piece& piece : component.pieces) {
                    const Segment part = components_.segment(component, piece);
                    double largest = 0.0, q[kMostJoints];
                    for (int j = 0; j < n_joints_; ++j) {
                        largest = std::max(largest, std::abs(part.at(j, piece.to) - part.at(j, piece.from)));
                    }
                    const double n = std::ceil(largest / (wider * finest));
                    if (counts) {
                        parts += n;
                        continue;
                    }
                    for (double k = 0.5; k < n; ++k) {
                        const double s = piece.from + k / n * (piece.to - piece.from);
                        for (int j = 0; j < n_joints_; ++j) q[j] = within(bounds_, j, part.at(j, s));
                        rows.add(q);
                    }
                }
            }
            if (!counts) return rows;
        }
        return Configurations{n_joints_};
    }

    // Returns places along the components, in the order of the components and from end to end on each of them. Places
    // are at most `spacing` apart, unless this would give more than about `most` places. Sets `counts` to the number of
    // places per component.
    Configurations along(double spacing, Index most, std::vector<Index>& counts) const {
        double total = 0.0;
        for (const Component& component : components_.components()) total += component.length;
        spacing = std::max(spacing, total / double(std::max<Index>(most, 1)));
        Configurations rows{n_joints_};
        for (const Component& component : components_.components()) {
            const Index n = Index(std::ceil(component.length / spacing + 1e-9));
            components_.divide(component, n, 0.0, rows);
            if (!component.is_closed) components_.divide(component, 1, 1.0, rows);
            counts.push_back(n + !component.is_closed);
        }
        return rows;
    }

    // Returns configurations that divide the components evenly. If spacing > 0, successive configurations are at most
    // `spacing` apart. If spacing <= 0, n configurations are returned, at least one per component if n is large enough.
    // At the deadline, a time of the steady clock [s], `is_late` becomes true, and the remaining components are
    // skipped.
    Configurations divided(Index n, double spacing, double deadline, bool& is_late) const {
        const std::vector<Component>& all = components_.components();
        std::vector<Index> parts(all.size(), 0);
        if (spacing > 0.0) {
            for (std::size_t f = 0; f < all.size(); ++f) parts[f] = Index(std::ceil(all[f].length / spacing + 1e-9));
        } else {  // repeatedly divides the component with the longest parts
            double total = 0.0;
            for (const Component& component : all) total += component.length;
            std::vector<std::pair<double, std::size_t>> heap;
            Index left = n;
            for (std::size_t f = 0; f < all.size(); ++f) {
                const double fair = double(n - Index(all.size())) * all[f].length / total;
                if (n > Index(all.size())) parts[f] = std::max<Index>(1, Index(fair));
                left -= parts[f];
                heap.push_back({parts[f] == 0 ? 1e9 + all[f].length : all[f].length / double(parts[f]), f});
            }
            std::make_heap(heap.begin(), heap.end());
            for (; left > 0 && !heap.empty(); --left) {
                std::pop_heap(heap.begin(), heap.end());
                auto& [longest, f] = heap.back();
                longest = all[f].length / double(++parts[f]);
                std::push_heap(heap.begin(), heap.end());
            }
        }
        Configurations rows{n_joints_};
        is_late = false;
        for (std::size_t f = 0; f < all.size() && !is_late; ++f) {
            is_late = rows.size() > kPlacesBeforeLook && is_past(deadline);
            components_.divide(all[f], parts[f], all[f].is_closed ? random_.uniform() : 0.5, rows);
        }
        return rows;
    }

    // Returns random places on the components, on average one per `spacing` of length. The number of places on a
    // component is rounded at random. Even short components can therefore get places.
    Configurations scattered(double spacing) const {
        Configurations rows{n_joints_};
        for (const Component& component : components_.components()) {
            const Index n = Index(component.length / spacing + random_.uniform());
            components_.divide(component, n, random_.uniform(), rows);
        }
        return rows;
    }

    // Returns the place nearest to a configuration on each of the `most` nearest components, in the order of distance.
    Configurations nearest(const double* reference, int most) const {
        std::vector<Nearby> found;
        std::vector<std::pair<double, const Piece*>> order;  // pieces with lower bounds of their distances
        double nearest_square = std::numeric_limits<double>::infinity();
        for (const Component& component : components_.components()) {
            Nearby best{most == 1 ? nearest_square : std::numeric_limits<double>::infinity(), {}};
            double away[kMostJoints];
            const auto away_from = [&](const Segment& part) {
                double middle = 0.0;
                for (int j = 0; j < n_joints_; ++j) {
                    away[j] = difference(reference[j], part.start[j], bounds_.wraps[j]);
                    const double d = away[j] - part.moved(j, 0.5);
                    middle += d * d;
                }
                return std::sqrt(middle);
            };
            order.clear();
            for (const Piece& piece : component.pieces) {
                const Segment part = components_.segment(component, piece);
                order.push_back({away_from(part) - 0.75 * part.length, &piece});
            }
            std::sort(order.begin(), order.end());
            for (const auto& [bound, at] : order) {
                if (bound > std::sqrt(best.square)) break;
                const Piece& piece = *at;
                const Segment part = components_.segment(component, piece);
                away_from(part);
                for (double begin : {piece.from, 0.5 * (piece.from + piece.to), piece.to}) {
                    double s = begin;
                    part.closest(away, s);
                    s = std::clamp(s, piece.from, piece.to);
                    double square = 0.0;
                    for (int j = 0; j < n_joints_; ++j) {
                        const double d = away[j] - part.moved(j, s);
                        square += d * d;
                    }
                    if (square >= best.square) continue;
                    best.square = square, best.q.resize(std::size_t(n_joints_));
                    for (int j = 0; j < n_joints_; ++j) best.q[j] = within(bounds_, j, part.at(j, s));
                }
            }
            nearest_square = std::min(nearest_square, best.square);
            if (!best.q.empty()) found.push_back(std::move(best));
        }
        const std::size_t n = std::min(found.size(), std::size_t(std::max(most, 0)));
        std::partial_sort(found.begin(), found.begin() + std::ptrdiff_t(n), found.end(),
                          [](const Nearby& a, const Nearby& b) { return a.square < b.square; });
        Configurations rows{n_joints_};
        for (std::size_t i = 0; i < n; ++i) rows.add(found[i].q.data());
        return rows;
    }

   private:
    const CurveComponents& components_;
    const Bounds<double>& bounds_;
    int n_joints_;
    Random& random_;
};

}  // namespace eim
