"""Each claim is checked with three small tables: one confirms the claim, one contradicts it, and one has no rows."""

import importlib

import pytest

from experiments.harness import EXPERIMENTS, experiment_module
from experiments.kinematics import CURVES
from experiments.nonlinear import COURSE
from experiments.projections import EXPERIMENT as PROJECTIONS
from experiments.projections import ProjectionsConfig
from experiments.report import Claim, Finding, Setup, paired_means
from experiments.robustness import OPTIMUM
from experiments.table import Header, ResultTable


def table(rows) -> ResultTable:
    return ResultTable(Header("any", {}, {}), tuple({"seed": 0, **row} for row in rows))


THESIS = Setup("network")


def setups(module) -> tuple[Setup, ...]:
    return importlib.import_module(f"experiments.{module}").SETUPS


def thesis(module) -> Setup:
    """Return the setup with the settings of the thesis, which other methods share."""
    (found,) = (one for one in setups(module) if one.key == THESIS.key)
    return found


def claims(module) -> tuple[Claim, ...]:
    return importlib.import_module(f"experiments.{module}").CLAIMS


def rows_of(cells, figures) -> ResultTable:
    """Return a table with one row per cell. Each row contains the figures of its method."""
    return table({**cell, **figures[cell["method"]]} for cell in cells)


def line_reaching(eim, tip, coverage):
    return table(
        {"method": method, "estimator": ratio, "n_components": n, "distance": distance, "coverage": coverage[n]}
        for n in (1, 50)
        for method, ratio, distance in (("EM", "none", 0.2), ("EIM", "network", eim), ("EIM + tip", "network", tip))
    )


def obstacle(collisions, distance, above):
    eim = {"collisions": collisions, "distance": distance, "above": above}
    cells = [{"method": "EM", "estimator": "none"}, {"method": "EIM", "estimator": "network"}]
    return rows_of(cells, {"EM": {"collisions": 0.7, "distance": 2.0, "above": 0.5}, "EIM": eim})


def nonlinear(kl, near, on_one_mode, last, gain):
    cells = [
        {"target": target, "method": method, "estimator": ratio}
        for target in ("sine", "modes", "spread")
        for method, ratio in (("EM", "none"), ("EIM", "network"))
    ]
    eim = {"kl": kl, "near": near, "on_one_mode": on_one_mode}
    course = [
        {"contexts": [0.0, 0.0], "samples": [0.1, far], "weights": [1.0 + gain, 1.0 - gain]} for far in (1.0, last)
    ]
    cells.append({"target": "sine", "method": COURSE, "estimator": "network"})
    em = {"kl": 9.0, "near": 0.5, "on_one_mode": 0.5}
    return rows_of(cells, {"EM": em, "EIM": eim, COURSE: {"course": course}})


def kinematics(rmse, marginal, conditional):
    eim = {"rmse_position": rmse, "entropy_marginal": marginal, "entropy_conditional": conditional}
    em = {"rmse_position": 0.4, "entropy_marginal": 0.98, "entropy_conditional": 0.7}
    cells = [
        {"robot": "iiwa14", "method": method, "estimator": ratio, "n_components": count}
        | {CURVES["entropy_conditional"]: [0.8, conditional]}
        for count in (10, 100)
        for method, ratio in (("EM", "none"), ("EIM", "network"))
    ]
    return rows_of(cells, {"EM": em, "EIM": eim})


def robustness(eim, em):
    best = [{"method": OPTIMUM, "estimator": "none", "start": 0, "log_likelihood": 0.6}]
    runs = (("EIM", "network", eim), ("EM", "none", em))
    return table(
        best
        + [
            {"method": method, "estimator": ratio, "start": start, "log_likelihood": value}
            for method, ratio, values in runs
            for start, value in enumerate(values)
        ]
    )


def traffic(eim):
    cells = [("EM", "none", 0.2), ("EIM", "network", eim)]
    return table(
        {"data": "NGSIM Lankershim", "method": method, "estimator": ratio, "n_components": 10, "off_road": share}
        for method, ratio, share in cells
    )


def adversarial(**kl):
    estimators = {"GAN": "discriminator", "VIPS": "known"}
    return table(
        {"method": name, "estimator": estimators.get(name, "network"), "weights": "none"}
        | {"n_dims": 2, "n_components": 5, "kl": value}
        for name, value in kl.items()
    )


BORNE_OUT = {
    "adversarial": adversarial(**{"EIM": 0.1, "EIM-KL": 0.2, "EIM-US": 0.3, "EIM-US-KL": 0.3, "GAN": 0.5, "VIPS": 0.0}),
    "kinematics": kinematics(0.2, 0.95, 0.3),
    "line_reaching": line_reaching(0.05, 0.01, {1: 0.2, 50: 0.9}),
    "nonlinear": nonlinear(0.01, 0.99, 0.95, 0.2, 0.5),
    "obstacle": obstacle(0.0, 0.05, 1.0),
    "robustness": robustness((0.5, 0.5, 0.5, -0.1), (0.6, -0.5, -0.5, -0.5)),
    "traffic": traffic(0.05),
}
NOT = {
    "adversarial": adversarial(**{"EIM": 0.4, "EIM-KL": 0.2, "EIM-US": 0.3, "EIM-US-KL": 0.9, "GAN": 0.3, "VIPS": 0.5}),
    "kinematics": kinematics(0.5, 0.6, 0.75),
    "line_reaching": line_reaching(0.15, 0.18, {1: 0.9, 50: 0.8}),
    "nonlinear": nonlinear(0.5, 0.6, 0.6, 0.9, -0.5),
    "obstacle": obstacle(0.4, 0.05, 0.5),
    "robustness": robustness((0.5, -9.0, -9.0, -9.0), (0.4, 0.5, -0.5, -0.5)),
    "traffic": traffic(0.15),
}


@pytest.mark.parametrize("name", BORNE_OUT)
@pytest.mark.parametrize(("tables", "agrees"), [(BORNE_OUT, True), (NOT, False)])
def test_claims_agree_with_tables_that_bear_them_out_and_with_no_others(name, tables, agrees):
    found = [claim.check(tables[name], thesis(name)) for claim in claims(name)]
    assert [finding.agrees for finding in found] == [agrees] * len(claims(name))


@pytest.mark.parametrize("name", BORNE_OUT)
def test_each_no_is_explained_in_one_sentence(name):
    for claim in claims(name):
        why = claim.check(NOT[name], thesis(name)).why
        assert why and "\n" not in why and ". " not in why and not why.endswith(".")
        assert claim.check(BORNE_OUT[name], thesis(name)).why == ""


def test_finding_without_an_explanation_is_refused():
    with pytest.raises(ValueError, match="needs a reason if and only if it disagrees"):
        Finding("measured", False)
    with pytest.raises(ValueError, match="needs a reason if and only if it disagrees"):
        Finding("measured", True, "because")


@pytest.mark.parametrize("name", BORNE_OUT)
def test_setup_without_rows_has_no_finding(name):
    for claim in claims(name):
        for setup in setups(name):
            assert claim.check(table([]), setup) is None
            if setup != thesis(name):
                assert claim.check(BORNE_OUT[name], setup) is None


@pytest.mark.parametrize("name", BORNE_OUT)
def test_any_row_may_be_missing(name):
    for rows in (BORNE_OUT[name].rows, NOT[name].rows):
        for missing in range(len(rows)):
            for kept in ((*rows[:missing], *rows[missing + 1 :]), rows[missing : missing + 1]):
                for claim in claims(name):
                    claim.check(BORNE_OUT[name].with_rows(kept), thesis(name))


def test_every_file_of_claims_is_tried():
    found = {module for name, module in EXPERIMENTS.items() if hasattr(experiment_module(name), "CLAIMS")}
    assert found - {"projections"} == BORNE_OUT.keys()


def test_i_projection_has_one_mode_and_m_projection_both():
    settings = ProjectionsConfig(n_samples=400, n_iterations=20, n_sweeps=3)
    rows = [{**cell, **PROJECTIONS.measure(settings, cell, 0).figures} for cell in PROJECTIONS.cells(settings)]
    (claim,) = claims("projections")
    (setup,) = setups("projections")
    assert claim.check(table(rows), setup).agrees
    two_modes = rows[0]["parameters"]
    rows[0]["parameters"] = {**two_modes, "right": two_modes["between"]}
    assert not claim.check(table(rows), setup).agrees
    assert claim.check(table([]), setup) is None


def test_what_em_alone_reaches_or_neither_reaches_cannot_tell_where_em_is_better():
    (better,) = (claim for claim in claims("robustness") if "EM's log-likelihood is higher" in claim.text)
    assert better.check(robustness((0.5,), (-0.5,)), THESIS).agrees is None


def test_pairs_are_means_over_the_seeds_that_both_methods_have():
    rows = table(
        {"method": method, "n": n, "seed": seed, "kl": value}
        for method, n, seed, value in (
            ("a", 1, 0, 1.0),
            ("a", 1, 1, 3.0),
            ("a", 1, 2, 100.0),
            ("b", 1, 0, 5.0),
            ("b", 1, 1, 7.0),
            ("a", 2, 0, 1.0),
        )  # fmt: skip
    )
    assert paired_means(rows, "kl", ("n",), {"method": "a"}, {"method": "b"}) == {(1,): (2.0, 6.0)}
