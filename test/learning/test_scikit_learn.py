"""Estimators of scikit-learn: they pass its own checks and work in its pipelines and searches."""

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.model_selection import GridSearchCV, KFold  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

from eim_ros.learning.sklearn import EIMMixture, EMMixture, TruncatedEMMixture  # noqa: E402

QUICK = {
    "ratio.estimator": "plug-in",
    "ratio.reference.starts": 1,
    "ratio.reference.iterations": 2,
    "n_selection_samples": 10,
}
FEW = {"start.n_starts": 1, "start.em_iterations": 1, "m_step.gating.n_contexts": 10, "m_step.n_samples": 10}
ESTIMATORS = [
    EMMixture(),
    EMMixture(n_components=2, n_init=2),
    TruncatedEMMixture(n_components=2, settings={"dense_below": 0}),
    EIMMixture(max_iter=1, settings={**QUICK, **FEW}),
]


def two_groups(n: int = 200) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)) + 6.0 * (np.arange(n) < n // 2)[:, None]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_checks_of_scikit_learn_pass(estimator):
    outcomes = check_estimator(estimator, on_skip=None)
    assert {outcome["status"] for outcome in outcomes} <= {"passed", "skipped"}
    assert sum(outcome["status"] == "passed" for outcome in outcomes) > 30


@pytest.mark.parametrize("estimator", ESTIMATORS[1:], ids=lambda estimator: type(estimator).__name__)
def test_result_has_the_attributes_and_answers_of_a_mixture(estimator):
    data = two_groups()
    fitted = clone(estimator).set_params(n_components=2, random_state=0).fit(data)
    assert fitted.weights_.shape == (2,)
    assert fitted.covariances_.shape == (2, 2, 2)
    labels = fitted.predict(data)
    assert len(set(labels[:100])) == len(set(labels[100:])) == 1
    np.testing.assert_array_equal(labels, fitted.predict_proba(data).argmax(1))
    assert fitted.score(data) == pytest.approx(fitted.score_samples(data).mean())
    drawn, components = fitted.sample(500)
    assert drawn.shape == (500, 2)
    np.testing.assert_array_equal(components, fitted.predict(drawn))


def test_search_in_a_pipeline_finds_the_number_of_components():
    pipeline = make_pipeline(StandardScaler(), EMMixture(random_state=0))
    folds = KFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(pipeline, {"emmixture__n_components": [1, 2]}, cv=folds).fit(two_groups())
    assert search.best_params_ == {"emmixture__n_components": 2}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"n_components": 0}, "n_components"), ({"tol": "small"}, "tolerance"), ({"settings": {"hart": 1}}, "hard")],
)
def test_wrong_parameter_is_a_value_error(wrong, named):
    with pytest.raises(ValueError, match=named):
        EMMixture(**wrong).fit(two_groups())
