// Components of the solution set of a pose, which are the connected pieces of its self-motions within the limits.
//
// A curve on the torus of the joints is unrolled. Each segment of the curve is shifted by revolutions of joints in all
// ways that bring the segment within the limits. If the limits are narrower than a revolution, there is at most one
// way.
#pragma once

#include "manifold/curve_graph.hpp"
#include "manifold/limit_cuts.hpp"
#include "numerics/clock.hpp"

namespace eim {

inline constexpr Index kMaxComponents = 20000;
inline constexpr double kMostTurns = 4096.0;  // largest number of combinations of revolutions of a segment
inline constexpr double kLeastTime = 0.015;   // [s]: the search may always take this time, even after the deadline

// An unrolled curve, in which place i + 1 follows place i. If the curve is closed, the last place equals the first
// place.
struct Curve {
    Configurations places, tangents;  // tangents: unit vectors along the curve
    std::vector<int> numbers;         // indices of the places in the graph
    bool is_closed = false;
    bool ends_known[2] = {true, true};  // false for an end at which tracing failed

    int n_segments() const { return int(numbers.size()) - 1; }
    Segment segment(int i) const {
        static constexpr bool never[kMostJoints] = {};
        return {
            places.n_joints, places.row(i), tangents.row(i), 1.0, places.row(i + 1), tangents.row(i + 1), 1.0, never};
    }
};

struct Piece {
    int segment, turns;       // segment of the curve; index into Component::turns
    double from, to, length;  // range within the segment; length [rad, m]
};

struct Component {
    int curve;
    // revolutions of each joint [rad], with several rows if the curve closes only after revolutions
    std::vector<std::vector<double>> turns;
    std::vector<Piece> pieces;  // in the order along the curve
    double length = 0.0;
    bool is_closed = false;
    bool is_complete = true;  // whether the component is closed, or ends at limits on both sides
};

class CurveComponents {
   public:
    // Takes the limits of the task, and the period of each joint. Joints without a period have period 0.
    CurveComponents(const Bounds<double>& limits, const double* period, int n_joints)
        : limits_(limits), n_joints_(n_joints) {
        std::copy_n(period, n_joints, period_);
    }

    const std::vector<Curve>& curves() const { return curves_; }
    const std::vector<Component>& components() const { return components_; }
    bool is_too_many() const { return is_too_many_; }
    // Whether the deadline passed before all components of a curve were found.
    bool is_cut_short() const { return is_cut_short_; }
    // Whether a curve only touches a limit or runs along it. Rounding then decides which part is within the limit.
    bool touches_limit() const { return touches_limit_; }
    int curve_of(int place) const { return curve_of_[place]; }
    bool has_component(int curve) const { return has_component_[curve]; }

    // Adds the new curves of the graph, and returns the number of their components. The curves of the graph must be
    // complete, because two parts of a curve would not be joined later. At the deadline, a time of the steady clock
    // [s], the search within a curve ends. No component of this curve then counts as complete.
    int update(const CurveGraph& graph, double deadline = std::numeric_limits<double>::infinity()) {
        const std::size_t n_before = components_.size();
        Watch watch(std::max(deadline, steady_seconds() + kLeastTime));
        curve_of_.resize(graph.size(), -1);
        for (int i = 0; i < graph.size(); ++i) {
            for (int side = 0; side < 2 && curve_of_[i] < 0; ++side) {  // the place was inserted into a known curve
                const int next = graph.link(i, side).place;
                if (next >= 0) curve_of_[i] = curve_of_[next];
            }
            if (curve_of_[i] < 0) take_in(graph, i, watch);
        }
        return int(components_.size() - n_before);
    }

    // Adds a curve, and cuts it at the limits. The default is for curves with almost exact cubics.
    void add(Curve curve, const LimitTolerances& tolerances = kExactCuts) {
        curves_.push_back(std::move(curve)), has_component_.push_back(0);
        Watch watch(std::numeric_limits<double>::infinity());
        cut(int(curves_.size()) - 1, watch, tolerances);
    }

    // Adds a component that is known from end to end, by places along it within the limits and unit tangents. If the
    // component is closed, the last place equals the first place.
    void adopt(const Configurations& places, const Configurations& tangents, bool is_closed) {
        Curve curve{places, tangents, std::vector<int>(places.size(), -1), is_closed};
        Component component{int(curves_.size()), {std::vector<double>(n_joints_, 0.0)}, {}};
        component.is_closed = is_closed;
        for (int i = 0; i < curve.n_segments(); ++i) {
            for (int j = 0; j < n_joints_; ++j) {
                const double before = curve.places.row(i)[j];
                curve.places.row(i + 1)[j] = before + difference(places.row(i + 1)[j], before, limits_.wraps[j]);
            }
            component.pieces.push_back({i, 0, 0.0, 1.0, curve.segment(i).length});
            component.length += component.pieces.back().length;
        }
        curves_.push_back(std::move(curve)), components_.push_back(std::move(component)), has_component_.push_back(1);
    }

    // Returns the segment of a piece, shifted into the limits.
    Segment segment(const Component& component, const Piece& piece) const {
        Segment part = curves_[component.curve].segment(piece.segment);
        for (int j = 0; j < n_joints_; ++j) part.start[j] += component.turns[piece.turns][j];
        return part;
    }

    // Adds n places to `rows`, one in each of n equal parts of a component. `phase` is the position of the place within
    // its part, from 0 (start) to 1 (end).
    void divide(const Component& component, Index n, double phase, Configurations& rows) const {
        double q[kMostJoints], passed = 0.0;
        std::size_t p = 0;
        for (Index k = 0; k < n; ++k) {
            const double wanted = component.length * (double(k) + phase) / double(n);
            while (p + 1 < component.pieces.size() && passed + component.pieces[p].length < wanted) {
                passed += component.pieces[p++].length;
            }
            const Piece& piece = component.pieces[p];
            const double share = std::clamp((wanted - passed) / std::max(piece.length, 1e-300), 0.0, 1.0);
            const Segment part = segment(component, piece);
            for (int j = 0; j < n_joints_; ++j) {
                q[j] = within(limits_, j, part.at(j, piece.from + share * (piece.to - piece.from)));
            }
            rows.add(q);
        }
    }

   private:
    static constexpr Index kUsualPlaces = 128;  // usual number of places of a curve, for which memory is reserved

    void take_in(const CurveGraph& graph, int first, Watch& watch) {
        Curve curve{{n_joints_}, {n_joints_}, {}};
        int start = first, side = 1;
        for (int i = first, back = 0;;) {  // back to the start of the curve, or once around it
            const CurveGraph::Link before = graph.link(i, back);
            if (before.place < 0) {
                start = i, side = 1 - back;
                break;
            }
            i = before.place, back = 1 - before.side;
            if (i == first && back == 0) {
                curve.is_closed = true;
                break;
            }
        }
        const int number = int(curves_.size());
        for (Configurations* rows : {&curve.places, &curve.tangents}) rows->positions.reserve(kUsualPlaces * n_joints_);
        curve.numbers.reserve(kUsualPlaces);
        std::vector<double> at(graph.place(start), graph.place(start) + n_joints_), tangent(n_joints_);
        curve.ends_known[0] = curve.is_closed || graph.link(start, 1 - side).place == CurveGraph::kCut;
        for (int i = start;;) {
            for (int j = 0; j < n_joints_; ++j) tangent[j] = side == 1 ? graph.tangent(i)[j] : -graph.tangent(i)[j];
            curve.places.add(at.data()), curve.tangents.add(tangent.data()), curve.numbers.push_back(i);
            if (curve.is_closed && i == start && curve.numbers.size() > 1) break;
            curve_of_[i] = number;
            const CurveGraph::Link next = graph.link(i, side);
            if (next.place < 0) {
                curve.ends_known[1] = next.place == CurveGraph::kCut;
                break;
            }
            for (int j = 0; j < n_joints_; ++j) {
                at[j] += difference(graph.place(next.place)[j], graph.place(i)[j], graph.wraps()[j]);
            }
            i = next.place, side = 1 - next.side;
        }
        curves_.push_back(std::move(curve));
        has_component_.push_back(0);
        cut(number, watch);
    }

    // Computes the components of a curve.
    void cut(int number, Watch& watch, const LimitTolerances& tolerances = {}) {
        const Curve& curve = curves_[number];
        const std::size_t first_component = components_.size();
        // components at the start of the curve; components that continue into this segment; components that continue
        // into the next segment
        std::vector<int> begun, open, next;
        for (int i = 0; i < curve.n_segments() && !is_too_many_ && !is_cut_short_; ++i) {
            const Segment part = curve.segment(i);
            next.clear();
            for_turns(part, tolerances.at_limit, [&](const double* shift) {
                if (is_cut_short_ |= watch.is_past(); is_cut_short_) return false;
                for (const auto& [from, to] : shares_within(limits_, part, shift, tolerances, touches_limit_)) {
                    int component = -1;
                    if (from == 0.0 && i > 0) {
                        for (int candidate : open) {
                            if (has_turns(components_[candidate], components_[candidate].pieces.back(), shift)) {
                                component = candidate;
                            }
                        }
                    }
                    if (component < 0) {
                        component = int(components_.size());
                        components_.push_back({number, {{shift, shift + n_joints_}}, {}});
                        if (from == 0.0 && i == 0) begun.push_back(component);
                    }
                    Component& of = components_[component];
                    of.pieces.push_back({i, 0, from, to, (to - from) * part.length});
                    of.length += of.pieces.back().length;
                    if (to == 1.0) next.push_back(component);
                }
                return true;
            });
            std::swap(open, next);
            is_too_many_ |= Index(components_.size()) > kMaxComponents;
        }
        if (is_cut_short_) {
            for (std::size_t f = first_component; f < components_.size(); ++f) components_[f].is_complete = false;
        } else if (curve.is_closed) {
            close(curve, begun, open);
        } else {
            for (int component : begun) components_[component].is_complete &= curve.ends_known[0];
            for (int component : open) components_[component].is_complete &= curve.ends_known[1];
        }
        std::erase_if(components_, [](const Component& component) { return component.pieces.empty(); });
        has_component_[number] = components_.size() > first_component;
    }

    // Joins components that reach the end of a closed curve with the components at its start.
    void close(const Curve& curve, const std::vector<int>& begun, std::vector<int>& open) {
        std::vector<double> turned(n_joints_);
        for (int& from : open) {
            const std::vector<double>& turns = components_[from].turns[components_[from].pieces.back().turns];
            for (int j = 0; j < n_joints_; ++j) {  // revolutions at the start of the curve
                const double way = curve.places.row(curve.n_segments())[j] - curve.places.row(0)[j];
                turned[j] = turns[j] + kTwoPi * std::round(way / kTwoPi);
            }
            for (int to : begun) {
                const Component& tail = components_[to];
                if (tail.pieces.empty() || !has_turns(tail, tail.pieces.front(), turned.data())) continue;
                if (to == from) {
                    components_[to].is_closed = true;
                    break;
                }
                append(components_[from], components_[to]);
                for (int& other : open) {  // the appended component may also reach the end
                    if (other == to) other = from;
                }
                break;
            }
        }
    }

    static void append(Component& head, Component& tail) {
        const int n = int(head.turns.size());
        for (Piece piece : tail.pieces) {
            piece.turns += n;
            head.pieces.push_back(piece);
        }
        head.turns.insert(head.turns.end(), tail.turns.begin(), tail.turns.end());
        head.length += tail.length, head.is_complete &= tail.is_complete;
        tail.pieces.clear();
    }

    bool has_turns(const Component& component, const Piece& piece, const double* turns) const {
        for (int j = 0; j < n_joints_; ++j) {
            if (!limits_.wraps[j] && std::abs(component.turns[piece.turns][j] - turns[j]) > 1e-6) return false;
        }
        return true;
    }

    // Calls visit(revolutions of each joint) for all revolutions that may move a segment within the limits, up to a
    // tolerance. Ends early if visit returns false.
    template <class Visit>
    void for_turns(const Segment& part, double tolerance, Visit visit) {
        double shift[kMostJoints] = {}, least[kMostJoints], most[kMostJoints], n_all = 1.0;
        for (int j = 0; j < n_joints_; ++j) {
            least[j] = most[j] = 0.0;
            if (limits_.wraps[j]) continue;
            const auto [low, high] = extent(part, j);
            if (period_[j] > 0.0) {
                least[j] = period_[j] * std::ceil((limits_.lower[j] - tolerance - high) / period_[j]);
                most[j] = period_[j] * std::floor((limits_.upper[j] + tolerance - low) / period_[j]);
            } else if (high < limits_.lower[j] - tolerance || low > limits_.upper[j] + tolerance) {
                return;
            }
            n_all *= std::max(0.0, (most[j] - least[j]) / kTwoPi + 1.0);
            if (most[j] < least[j]) return;
            shift[j] = least[j];
        }
        if (n_all > kMostTurns) return void(is_too_many_ = true);
        while (true) {
            if (!visit(shift)) return;
            int j = 0;
            for (; j < n_joints_; ++j) {
                if (shift[j] + 0.5 * kTwoPi < most[j]) {
                    shift[j] += kTwoPi;
                    break;
                }
                shift[j] = least[j];
            }
            if (j == n_joints_) return;
        }
    }

    Bounds<double> limits_;
    int n_joints_;
    double period_[kMostJoints];
    bool is_too_many_ = false, is_cut_short_ = false, touches_limit_ = false;
    std::vector<Curve> curves_;
    std::vector<Component> components_;
    std::vector<int> curve_of_;  // curve of each place
    std::vector<std::uint8_t> has_component_;
};

}  // namespace eim
