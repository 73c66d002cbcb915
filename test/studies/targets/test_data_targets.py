"""Posteriors of data agree with other libraries, can use minibatches, and are read from files."""

import importlib.util
import math

import numpy as np
import pytest
import torch
from studies.targets.examples import normals, seeded, small_network, small_regression

from eim_ros.core.errors import DataError
from experiments.targets import (
    LogisticRegression,
    MinibatchTarget,
    NeuralRegression,
    breast_cancer,
    german_credit,
    wine,
)


def test_logistic_density_is_that_of_bernoulli_labels_and_a_normal_prior():
    target = small_regression()
    x = normals(5, 3, seed=7)
    likelihood = torch.distributions.Bernoulli(logits=x @ target.features.T).log_prob(target.labels).sum(-1)
    prior = torch.distributions.Normal(0.0, x.new_tensor(2.0)).log_prob(x).sum(-1)
    torch.testing.assert_close(target.log_prob(x), likelihood + prior, rtol=1e-12, atol=1e-12)


def test_network_is_that_of_torch():
    target = small_network()
    layers = [torch.nn.Linear(i, o, dtype=torch.float64) for i, o in target.shapes]
    network = torch.nn.Sequential(layers[0], torch.nn.Sigmoid(), layers[1], torch.nn.Sigmoid(), layers[2])
    weights = torch.cat([part.flatten() for layer in layers for part in (layer.weight.T, layer.bias)])[None].detach()
    with torch.no_grad():
        predicted = network(target.features).squeeze(-1)
    torch.testing.assert_close(target.predict(weights, target.features), predicted)
    expected = -(predicted - target.values).square().sum() - weights.square().sum() / (2.0 * 1.5**2)
    torch.testing.assert_close(target.log_prob(weights)[0], expected)


@pytest.mark.parametrize("full", [small_regression(), small_network()], ids=["logistic", "network"])
def test_batches_are_unbiased(full):
    """After each shuffle, four batches of 9 leave out one of 37 rows. Therefore many shuffles are averaged."""
    target = MinibatchTarget(full, full.n_data // 4)
    x = 0.5 * normals(1, full.n_dims, seed=6).expand(8, -1)
    estimates, scores = zip(*(target.minibatch(seeded(i)).log_prob_and_score(x) for i in range(500)), strict=True)
    stacked = torch.stack(estimates).mean(-1)
    error = float(stacked.std()) / math.sqrt(len(stacked))
    assert float(stacked.mean()) == pytest.approx(float(full.log_prob(x)[0]), abs=4.0 * error)
    mean_score = torch.stack(scores).mean((0, 1))
    torch.testing.assert_close(mean_score, full.score(x)[0], rtol=0.1, atol=0.2)


def test_batches_follow_their_generator_and_the_whole_target_is_by_all_data():
    target = MinibatchTarget(small_regression(), 8)
    x = normals(9, 3, seed=7)
    first, again, other = (target.minibatch(seeded(seed)).log_prob(x) for seed in (4, 4, 5))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    torch.testing.assert_close(target.log_prob(x), small_regression().log_prob(x))


def test_accuracy_is_the_share_of_right_labels():
    features = torch.tensor([[1.0], [-1.0], [2.0], [-2.0]]).double()
    target = LogisticRegression(features, torch.tensor([1.0, 0.0, 1.0, 1.0]).double())
    assert target.accuracy(torch.ones(3, 1).double()) == 0.75


@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="scikit-learn has the data")
def test_breast_cancer_has_the_published_shape():
    target = breast_cancer()
    assert (target.n_data, target.n_dims) == (569, 31)
    assert int(target.labels.sum()) == 212  # malignant
    torch.testing.assert_close(target.features[:, 1:].std(0, correction=0), torch.ones(30).double())


def test_breast_cancer_without_scikit_learn_names_the_cure(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)
    with pytest.raises(DataError, match="pip install scikit-learn"):
        breast_cancer()


def test_german_credit_is_read_from_its_file(tmp_path):
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.integers(0, 9, (12, 24)), rng.permutation([1, 2] * 6)])
    path = tmp_path / "german.data-numeric"
    np.savetxt(path, table, fmt="%4d")
    target = german_credit(path)
    assert (target.n_data, target.n_dims) == (12, 25)
    np.testing.assert_array_equal(target.labels.numpy(), table[:, -1] - 1)
    np.testing.assert_allclose(target.features[:, 1].numpy(), table[:, 0] / table[:, 0].std())


def test_wine_is_read_from_its_file(tmp_path):
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.normal(3.0, 2.0, (20, 11)), rng.integers(3, 9, 20)])
    path = tmp_path / "winequality-white.csv"
    np.savetxt(path, table, delimiter=";", header="names", comments="")
    split = wine(path)
    assert split.target.n_dims == 177
    assert split.target.n_data == 12
    assert split.test_features.shape == (4, 11)
    assert not torch.equal(wine(path, seed=1).target.values, split.target.values)


@pytest.mark.parametrize("content", ["", "1 2 3\n4 5 6\n", "a b\n", "nan " * 25 + "\n" + "1 " * 25])
def test_files_that_are_no_such_table_are_refused(tmp_path, content):
    path = tmp_path / "data"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError):
        german_credit(path)


def test_missing_files_are_refused(tmp_path):
    with pytest.raises(DataError, match="cannot read"):
        wine(tmp_path / "none.csv")


def test_bad_data_are_refused():
    with pytest.raises(DataError, match="0 or 1"):
        LogisticRegression(torch.ones(2, 1), torch.tensor([1.0, 2.0]))
    with pytest.raises(DataError, match="one label per row"):
        LogisticRegression(torch.ones(2, 1), torch.ones(3))
    with pytest.raises(DataError, match="finite"):
        NeuralRegression(torch.full((2, 1), torch.nan), torch.ones(2))
    for size in (0, 38):
        with pytest.raises(DataError, match="a batch must have"):
            MinibatchTarget(small_regression(), size)
