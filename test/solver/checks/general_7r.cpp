// Checks for arms with seven revolute joints: numbers with twice the precision of double, the polynomial of two joints,
// and proofs about curves.
#include "checks.hpp"
#include "search/self_motions.hpp"

using namespace eim;

namespace {

// An arm, and a pose that it reaches at q.
struct SevenJoints {
    Chain chain;
    double q[kMostJoints];
    Task task;

    explicit SevenJoints(int seed)
        : chain(arm(7, Joints::plain, std::uint64_t(seed))), task(reachable(chain, double(seed) / 89.0, q)) {}
};

// Curves traced through known solutions.
struct Traced {
    Task free;
    CurveGraph graph;
    CurveComponents components;
    Random random{0.4};

    Traced(const Chain& chain, const Task& task, const double* q)
        : free(without_limits(chain, task)), graph(free.bounds, 7), components(free.bounds, period(), 7) {
        add(chain, q);
    }
    void add(const Chain& chain, const double* q) {
        Configurations roots{7};
        roots.add(q);
        CurveTracer<7>(chain, free, graph, random).run(roots);
        components.update(graph);
    }
    static const double* period() {
        static const std::vector<double> turns(kMostJoints, kTwoPi);
        return turns.data();
    }
    bool is_known(const double* p) const { return graph.where(p, kCoarselySame).place >= 0; }
};

}  // namespace

CHECK(doubled_numbers_have_twice_the_precision) {
    using D = Doubled<double>;
    const D third = D(1.0) / D(3.0);
    agree((third * D(3.0) - D(1.0)).high, 0.0, 1e-31, "3 times a third");
    const D root = square_root(D(2.0));
    agree((root * root - D(2.0)).high, 0.0, 1e-31, "the square of a root");
    D cosine, sine;
    for (int n = 0; n < 56; ++n) {
        doubled_turn(n, 28, cosine, sine);
        agree((cosine * cosine + sine * sine - D(1.0)).high, 0.0, 1e-30, "a point of the circle");
        agree(cosine.high, std::cos(kPi * n / 28), 4e-15, "cosine");
        agree(sine.high, std::sin(kPi * n / 28), 4e-15, "sine");
    }
    const Doubled<WideDouble> pack = square_root(Doubled<WideDouble>(2.0));
    agree(pack.high[0], root.high, 0.0, "the same in packs"), agree(pack.low[0], root.low, 1e-32, "the same in packs");
}

CHECK(polynomial_of_two_joints_has_its_degree_and_vanishes_at_solutions) {
    for (int k = 0; k < 4; ++k) {
        const SevenJoints arm(k + 2);
        const General7R form(arm.chain);
        claim(form.fits(), "random axes are regular");
        for (const int number : form.readings()) {
            const Reading reading(number);
            const TorusPolynomial f(reading.view.of(form.loop(motion_of(arm.task.target))), reading.place);
            claim(f.beyond() < 1e-20 * f.amplitude(), "the degree");
            TorusSlices slices;
            f.at(reading.view.sign() * arm.q[reading.joint_of_s()], slices);
            const double value = slices.plain().at(reading.view.sign() * arm.q[reading.joint_of_t()]).f;
            claim(std::abs(value) < 1e-9 * f.amplitude(), "zero at the solution");
            // at a solution, the matrix is singular up to rounding, and the cell must not count as free of solutions
            double m[12][12];
            f.matrix(reading.view.sign() * arm.q[reading.joint_of_s()],
                     reading.view.sign() * arm.q[reading.joint_of_t()], m);
            claim(!is_without_solution(m, 1e-9), "a solution is there");
        }
    }
}

CHECK(bounds_of_strips_hold_at_random_places) {
    Random random(0.5);
    int n_empty = 0, n_monotone = 0;
    for (int seed = 2; seed < 6; ++seed) {
        const SevenJoints arm(seed);
        const General7R form(arm.chain);
        const Reading reading(form.readings()[0]);
        const TorusPolynomial f(reading.view.of(form.loop(motion_of(arm.task.target))), reading.place);
        StripProof proof(f, 1000000, std::numeric_limits<double>::infinity());
        for (int k = 0; k < 20; ++k) {
            const double middle = random.uniform(-kPi, kPi), half = 0.02;
            std::vector<StripProof::Cell> cells = StripProof::whole_circle();
            proof.holds(middle, half, cells);
            for (const StripProof::Cell& cell : cells) {
                for (int i = 0; i < 5; ++i) {
                    TorusSlices slices;
                    f.at(middle + half * random.uniform(-1.0, 1.0), slices);
                    const double t = cell.t + cell.r * random.uniform(-1.0, 1.0);
                    const double other = cell.t + cell.r * random.uniform(-1.0, 1.0);
                    const Resultant slice = slices.plain();
                    if (cell.kind == StripProof::Kind::empty) {
                        claim((slice.at(t).f > 0.0) == (slice.at(other).f > 0.0), "no zero in an empty cell"),
                            ++n_empty;
                    }
                    if (cell.kind == StripProof::Kind::monotone) {
                        claim((slice.at(t).f1 > 0.0) == (slice.at(other).f1 > 0.0), "no turn in a monotone cell");
                        ++n_monotone;
                    }
                }
            }
        }
    }
    claim(n_empty > 1000 && n_monotone > 1000, "both kinds occurred");
}

CHECK(a_curve_that_is_not_known_is_found_missing) {
    Random random(0.9);
    int n_missing = 0, n_all = 0;
    for (int k = 0; k < 12; ++k) {
        const SevenJoints arm(k + 20);
        const Chain& chain = arm.chain;
        const General7R form(chain);
        Traced traced(chain, arm.task, arm.q);  // one curve is traced; others may exist
        bool is_decided = false;
        for (std::size_t i = 0; i < form.readings().size() && !is_decided; ++i) {
            CurveProof proof(form, motion_of(arm.task.target), form.readings()[i]);
            if (!proof.prepare(std::numeric_limits<double>::infinity(), 100000)) continue;
            for (int round = 0; round < 16; ++round) {
                Configurations roots{7};
                const auto is_known = [&](const double* q) { return traced.is_known(q); };
                const Knowledge knowledge = proof.compare(traced.components.curves(), is_known, roots);
                if (knowledge == Knowledge::undecided) break;
                if (knowledge == Knowledge::all) {
                    is_decided = true, ++n_all;
                    break;
                }
                claim(!traced.is_known(roots.row(0)), "the solution is on no known curve");
                ++n_missing;
                traced.add(chain, roots.row(0));
            }
        }
        if (!is_decided) continue;
        // restarts must not find another curve
        Rows rows({7});
        rows.resize(400);
        for (double* x = rows.row(0); x != rows.row(0) + rows.positions.size(); ++x) *x = random.uniform(-kPi, kPi);
        run_rows<7>(chain, traced.free, {1e-6, 1e-6, 40, 3}, RowJobs::all(rows));
        for (Index i = 0; i < rows.size(); ++i) {
            claim(!rows.converged[i] || traced.is_known(rows.row(i)), "proven complete, but a restart found more");
        }
    }
    claim(n_all >= 8 && n_missing >= 3,
          std::to_string(n_all) + " decided, " + std::to_string(n_missing) + " missing at first");
}
