"""A fitted model has the methods of scikit-learn's mixtures, which give the same results for the same mixture."""

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, normal, random_mixture, random_mixture_of_experts

from eim_ros.core.errors import DataError, DistributionError, ModelFileError
from eim_ros.learning import FittedModel, run
from eim_ros.learning.em import EM
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts

MIXTURE = random_mixture(0, 3, 2)
EXPERTS = random_mixture_of_experts(1, 4, 2, 1)
FITTED, CONDITIONAL = FittedModel.of(MIXTURE), FittedModel.of(EXPERTS)
SAMPLE, CONTEXT = normal(generator_of(2), 20, 2), normal(generator_of(3), 20, 1)


def test_answers_are_those_of_the_mixture():
    responsibilities = MIXTURE.log_responsibilities(SAMPLE).exp()
    torch.testing.assert_close(FITTED.predict_proba(SAMPLE), responsibilities, rtol=0.0, atol=1e-12)
    assert torch.equal(FITTED.predict(SAMPLE), responsibilities.argmax(-1))
    torch.testing.assert_close(FITTED.score_samples(SAMPLE), MIXTURE.log_prob(SAMPLE), rtol=1e-12, atol=1e-12)
    assert FITTED.score(SAMPLE) == pytest.approx(float(MIXTURE.log_prob(SAMPLE).mean()), rel=1e-12)
    for name in ("weights", "means", "covariances"):
        torch.testing.assert_close(getattr(FITTED, name), getattr(MIXTURE, name), rtol=1e-12, atol=1e-12)
    assert (FITTED.n_components, FITTED.n_dims) == (3, 2)


def test_answers_of_a_conditional_model_are_of_pairs():
    pair = CONTEXT, SAMPLE
    torch.testing.assert_close(CONDITIONAL.predict_proba(pair).sum(-1), torch.ones(20).double(), rtol=0, atol=1e-12)
    assert torch.equal(CONDITIONAL.predict(pair), EXPERTS.log_responsibilities(*pair).argmax(-1))
    torch.testing.assert_close(CONDITIONAL.score_samples(pair), EXPERTS.log_prob(*pair))


def test_answers_come_as_the_data_do():
    for ask in (FITTED.predict, FITTED.predict_proba, FITTED.score_samples):
        as_array = ask(SAMPLE.numpy())
        assert isinstance(as_array, np.ndarray)
        np.testing.assert_array_equal(as_array, ask(SAMPLE).numpy())
        np.testing.assert_array_equal(as_array, ask(SAMPLE.tolist()))
    assert isinstance(CONDITIONAL.predict((CONTEXT.numpy(), SAMPLE.numpy())), np.ndarray)


def test_rows_are_answered_a_bounded_number_at_a_time(monkeypatch):
    whole = FITTED.predict_proba(SAMPLE)
    monkeypatch.setattr(run, "CHUNK_ELEMENTS", 9)
    torch.testing.assert_close(FITTED.predict_proba(SAMPLE), whole, rtol=0.0, atol=1e-15)


@pytest.mark.parametrize("fitted", [FITTED, CONDITIONAL], ids=["mixture", "experts"])
def test_saved_model_answers_the_same(fitted, tmp_path):
    data = SAMPLE if fitted is FITTED else (CONTEXT, SAMPLE)
    fitted.save(tmp_path / "model.safetensors")
    loaded = FittedModel.load(tmp_path / "model.safetensors")
    assert loaded.conditional == fitted.conditional
    assert type(loaded.model) is (GaussianMixture if fitted is FITTED else MixtureOfExperts)
    torch.testing.assert_close(loaded.predict_proba(data), fitted.predict_proba(data), rtol=0.0, atol=1e-14)


def test_file_that_holds_no_model_is_refused(tmp_path):
    (tmp_path / "text").write_text("no model")
    with pytest.raises(ModelFileError):
        FittedModel.load(tmp_path / "text")


def test_result_of_a_fit_is_a_fitted_model(tmp_path):
    fit = EM(n_components=2, seed=1).fit(SAMPLE.numpy())
    assert isinstance(fit, FittedModel)
    assert set(fit.predict(SAMPLE.numpy())) <= {0, 1}
    assert fit.sample(5, generator_of(0)).shape == (5, 2)
    fit.save(tmp_path / "model")
    assert type(fit).load(tmp_path / "model").score(SAMPLE) == pytest.approx(fit.score(SAMPLE), rel=1e-12)


@pytest.mark.parametrize("name", ["weights", "means", "covariances"])
def test_figures_that_depend_on_contexts_are_asked_of_the_model(name):
    with pytest.raises(DistributionError, match=r"model\(context\)"):
        getattr(CONDITIONAL, name)
    with pytest.raises(DistributionError, match=r"model\(context\)"):
        CONDITIONAL.sample(3)


@pytest.mark.parametrize("ask", ["predict", "predict_proba", "score_samples", "score"])
def test_data_of_another_kind_are_refused(ask):
    for fitted, data in (
        (FITTED, normal(generator_of(4), 5, 3)),
        (FITTED, (CONTEXT, SAMPLE)),
        (CONDITIONAL, SAMPLE),
        (CONDITIONAL, CONTEXT),
        (CONDITIONAL, (SAMPLE, CONTEXT)),
    ):
        with pytest.raises(DataError, match="the model needs"):
            getattr(fitted, ask)(data)
    with pytest.raises(DataError, match="NaN"):
        getattr(FITTED, ask)(torch.full((3, 2), torch.nan))
