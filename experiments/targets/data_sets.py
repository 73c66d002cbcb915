"""Data of the published experiments: scikit-learn's breast cancer data and files of the UCI repository.

Columns are scaled as in the authors' code. The functions `synthetic_*` return random data with the shape of a data set,
for tests, and to measure times without the data file. Results with these data are not comparable with published
results.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.core.errors import DataError
from experiments.targets.regression import LogisticRegression, NeuralRegression

FloatArray = npt.NDArray[np.float64]
N_CREDIT, N_CREDIT_FEATURES = 1000, 24
N_WINE, N_WINE_FEATURES = 4898, 11


@dataclass(frozen=True)
class Split:
    """Posterior given the training data, together with the test data.

    Attributes
    ----------
    target : NeuralRegression
    test_features : Tensor (n_test, n_features)
    test_values : Tensor (n_test,)
    """

    target: NeuralRegression
    test_features: Tensor
    test_values: Tensor


def breast_cancer() -> LogisticRegression:
    """Return BreastCancer: 569 patients, 30 measurements and an intercept. Label 1 is malignant.

    Raises
    ------
    DataError
        If scikit-learn, which contains the data, is not installed.
    """
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError as error:
        raise DataError(
            "the breast cancer data are part of scikit-learn, which is not installed; run pip install scikit-learn",
            None,
        ) from error
    features, benign = load_breast_cancer(return_X_y=True)
    return _regression(features, 1.0 - benign)


def german_credit(path: str | Path) -> LogisticRegression:
    """Return GermanCredit: 1000 customers, 24 numbers and an intercept. Label 1 is a bad credit.

    Parameters
    ----------
    path : str or Path
        `german.data-numeric` of UCI's Statlog data, with 25 numbers per row. The last number is 1 (good) or 2 (bad).

    Returns
    -------
    LogisticRegression

    Raises
    ------
    DataError
        If the file is not such a table.
    """
    table = _table(path, None, N_CREDIT_FEATURES + 1)
    return _regression(table[:, :-1], table[:, -1] - 1.0)


def wine(path: str | Path, seed: int = 0) -> Split:
    """Return WINE: prediction of a wine's quality from 11 measurements by an 11-8-8-1 network.

    The training data are 60 % of the rows.

    Parameters
    ----------
    path : str or Path
        `winequality-white.csv` of UCI, with a line of names, followed by rows of 12 numbers, separated by semicolons.
    seed : int
        Seed of the split. No seed reproduces the split of the authors.

    Returns
    -------
    Split

    Raises
    ------
    DataError
        If the file is not such a table.
    """
    table = _table(path, ";", N_WINE_FEATURES + 1, header=1)
    return _split(table[:, :-1], table[:, -1], seed)


def synthetic_german_credit(seed: int = 0) -> LogisticRegression:
    """Return random data with the shape of GermanCredit: 1000 rows, 24 normal features, labels of a logistic model."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((N_CREDIT, N_CREDIT_FEATURES))
    logits = features @ (0.5 * rng.standard_normal(N_CREDIT_FEATURES)) - 1.0
    return _regression(features, (rng.random(N_CREDIT) < 1.0 / (1.0 + np.exp(-logits))).astype(np.float64))


def synthetic_wine(seed: int = 0) -> Split:
    """Return random data with the shape of WINE: 4898 rows, 11 normal features, noisy values of a smooth function."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((N_WINE, N_WINE_FEATURES))
    hidden = np.tanh(features @ rng.standard_normal((N_WINE_FEATURES, 4)) / 3.0)
    return _split(features, 6.0 + hidden.sum(1) + 0.7 * rng.standard_normal(N_WINE), seed)


def _regression(features: FloatArray, labels: FloatArray) -> LogisticRegression:
    """Divide columns by their standard deviations and prepend a column of ones."""
    scaled = features / features.std(axis=0)
    rows = np.concatenate([np.ones((len(scaled), 1)), scaled], axis=1)
    return LogisticRegression(torch.from_numpy(rows), torch.from_numpy(np.asarray(labels, dtype=np.float64)))


def _split(features: FloatArray, values: FloatArray, seed: int) -> Split:
    """Standardise columns and split rows: 60 % for training, 20 % for testing, and 20 % (validation) unused."""
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    order = np.random.default_rng(seed).permutation(len(scaled))
    train, test = order[: int(0.6 * len(order))], order[int(0.6 * len(order)) : int(0.8 * len(order))]
    target = NeuralRegression(torch.from_numpy(scaled[train]), torch.from_numpy(values[train]))
    return Split(target, torch.from_numpy(scaled[test]), torch.from_numpy(values[test]))


def _table(path: str | Path, delimiter: str | None, n_columns: int, header: int = 0) -> FloatArray:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()[header:]
        table = np.loadtxt(lines, delimiter=delimiter, ndmin=2) if any(lines) else np.empty((0, 0))
    except OSError as error:
        raise DataError(f"cannot read the data {str(path)!r}: {error.strerror or error}", str(path)) from error
    except ValueError as error:
        raise DataError(f"{str(path)!r} is not a table of numbers: {error}", str(path)) from error
    if table.shape[1] != n_columns or len(table) < 2:
        raise DataError(
            f"{str(path)!r} must have at least 2 rows and {n_columns} columns, got {table.shape}", table.shape
        )
    if not np.isfinite(table).all():
        raise DataError(f"{str(path)!r} contains values that are not finite", str(path))
    return table
