"""`eim train` on arrays of the user fits the same model as the learner in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli.command import Command, process_without
from cli.conftest import sets

from eim_ros.cli.main import ExitCode
from eim_ros.learning import EIM, EM, FittedModel, TruncatedEM
from eim_ros.learning.models import load_model

LEARNERS = {"em": EM, "eim": EIM, "truncated-em": TruncatedEM}
NAMES = ("x", "a", "b")


@pytest.fixture
def rows() -> np.ndarray:
    """Return rows with two ways around a post; the ways depend on the first column."""
    rng = np.random.default_rng(0)
    x, side = rng.uniform(-1.0, 1.0, 120), rng.choice([-1.0, 1.0], 120)
    return np.column_stack([x, side + 0.1 * rng.normal(size=120), x * side + 0.1 * rng.normal(size=120)])


@pytest.fixture
def table(tmp_path: Path, rows: np.ndarray) -> Path:
    path = tmp_path / "own.csv"
    np.savetxt(path, rows, delimiter=",", header=",".join(NAMES), comments="", fmt="%.17g")
    return path


def alike(model: Any, other: Any) -> bool:
    tensors = other.tensors()
    return all(torch.equal(value, tensors[name]) for name, value in model.tensors().items())


@pytest.mark.parametrize("algorithm", LEARNERS)
@pytest.mark.parametrize("form", ["csv", "npz"])
def test_model_of_arrays_is_that_of_the_learner(
    eim: Command, tmp_path: Path, rows: np.ndarray, table: Path, algorithm: str, form: str
) -> None:
    data, samples = table, "a,b"
    if form == "npz":
        data, samples = tmp_path / "own.npz", "way"
        np.savez(data, x=rows[:, 0], way=rows[:, 1:])
    output = tmp_path / "model.safetensors"
    words = ("--contexts", "x", "--samples", samples, "--algorithm", algorithm, "--experts", 2, "--iterations", 3)
    told = eim("train", "--data", data, *words, "--seed", 4, "--quiet", "--json", "--output", output)
    assert told.code == ExitCode.DONE, told.err
    assert (told.json["n_samples"], told.json["seed"]) == (len(rows), 4)
    expected = LEARNERS[algorithm](n_components=2, n_iterations=3, seed=4).fit((rows[:, :1], rows[:, 1:]))
    model, document = load_model(output)
    assert alike(model, expected.model)
    assert (document["context_names"], document["sample_names"]) == (["x"], samples.split(","))
    assert document["training"]["algorithm"] == algorithm


def test_samples_alone_give_a_mixture_that_may_be_continued(eim: Command, tmp_path: Path, table: Path) -> None:
    words = ("train", "--data", table, "--samples", "b,a", "--algorithm", "em", "--experts", 5, "--quiet")
    first, second = (tmp_path / f"{name}.safetensors" for name in ("first", "second"))
    assert eim(*words, "--iterations", 1, "--output", first).code == ExitCode.DONE
    assert eim(*words, "--iterations", 4, "--output", second, *sets(f"run.initial={first}")).code == ExitCode.DONE
    data = np.loadtxt(table, delimiter=",", skiprows=1)[:, [2, 1]]
    start, model = (FittedModel.load(path) for path in (first, second))
    assert not model.conditional
    assert model.score(data) > start.score(data)
    assert alike(model.model, EM(n_components=5, n_iterations=4, seed=0).fit(data, start).model)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--contexts", "x"), "--contexts has an effect only with --samples"),
        (("--samples", "a,,b"), "expected different names"),
        (("--samples", "a,a"), "expected different names"),
        (("--samples", ""), "expected different names"),
        (("--samples", "c"), "it has x, a, b"),
        (("--samples", "a", "--task", "motion"), "leave out --robot and --task"),
        (("--samples", "a", "--robot", "planar3"), "leave out --robot and --task"),
        (("--samples", "a", "--algorithm", "known-density"), "GMMVI in Python"),
        (("--samples", "a", *sets("run.prior=panda_pose")), "run.prior works only for arms"),
        ((), "name columns with eim train --contexts and --samples"),
    ],
)
def test_what_does_not_fit_is_told_in_one_line(
    eim: Command, tmp_path: Path, table: Path, words: tuple[str, ...], reason: str
) -> None:
    output = tmp_path / "model.safetensors"
    eim("train", "--data", table, "--output", output, "--quiet", *words).refused(reason)
    assert not output.exists()


def test_archive_of_other_arrays_names_the_flags(eim: Command, tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=np.zeros(3))
    outcome = eim("train", "--data", tmp_path / "own.npz", "--output", tmp_path / "model.safetensors")
    outcome.refused("it lacks context, description, sample", "--contexts and --samples")


def test_learner_without_torch_names_what_to_install() -> None:
    code = "try:\n from eim_ros import EM\nexcept ImportError as error:\n print(type(error).__name__, error)"
    told = process_without(("torch",), code).out
    assert told.startswith(
        "MissingPackageError eim_ros.EM needs torch, which is not installed: run pip install '.[learning]'"
    )


@pytest.mark.parametrize("name", ["n_experts", "experts", "num_components", "k"])
def test_other_names_of_the_number_of_components_are_corrected(name: str) -> None:
    with pytest.raises(Exception, match=f"unknown setting {name}; in this package it is called n_components"):
        EIM(**{name: 4})
