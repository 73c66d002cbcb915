"""Learners with a truncated auxiliary distribution are exact without truncation, and record the error otherwise."""

from learning.models.random_models import generator_of, random_mixture_of_experts
from learning.toys import kl_between, pairs_from, small_eim_config, without_times

from eim_ros.learning import EIMConfig
from eim_ros.learning.configs import AuxiliaryConfig
from eim_ros.learning.eim import EIM

N_COMPONENTS = 12


def fits(**settings):
    """Return a fit from samples and a fit to a known density."""
    target, start = random_mixture_of_experts(0, 3, 2, 1), random_mixture_of_experts(1, N_COMPONENTS, 2, 1)
    data = pairs_from(target, 300)
    common = {"n_components": N_COMPONENTS, "n_iterations": 3, **settings}
    from_samples = EIM(small_eim_config(**common, **{"ratio.estimator": "plug-in", "m_step.n_samples": 40}))
    known = EIM(EIMConfig.known_density(**common), target=target)
    return [learner.fit(data, start, generator=generator_of(2)) for learner in (from_samples, known)]


def test_default_is_exact_for_few_components_and_truncated_for_many():
    config = AuxiliaryConfig()
    for n_components, n_states in ((199, 0), (200, 16)):
        model = random_mixture_of_experts(3, n_components, 2, 1)
        context, sample = pairs_from(model, 50)
        assert config.prepared(model, context, sample).states.shape == (n_components, n_states)
        exact = config.replace(n_states=0).prepared(model, context, sample)
        assert exact.states.shape == (n_components, 0)


def test_as_many_states_as_components_change_nothing():
    for exact, whole in zip(
        fits(), fits(**{"ratio.auxiliary.exact_below": 0, "ratio.auxiliary.n_states": N_COMPONENTS}), strict=True
    ):
        assert without_times(exact.history) == without_times(whole.history)
        assert all("auxiliary_error" not in record for record in whole.history.records)


def test_error_is_recorded_and_falls_with_the_number_of_states():
    few, more = (fits(**{"ratio.auxiliary.exact_below": 0, "ratio.auxiliary.n_states": n}) for n in (5, 6))
    for less_exact, more_exact in zip(few, more, strict=True):
        # the first records of both fits are from the same start
        assert less_exact.history.column("auxiliary_error")[0] > more_exact.history.column("auxiliary_error")[0] > 0.0


def test_nearly_all_of_the_posterior_gives_nearly_the_same_model():
    start = random_mixture_of_experts(1, N_COMPONENTS, 2, 1)
    for exact, truncated in zip(
        fits(), fits(**{"ratio.auxiliary.exact_below": 0, "ratio.auxiliary.n_states": 11}), strict=True
    ):
        assert max(truncated.history.column("auxiliary_error")) < 0.05
        difference = kl_between(truncated.mixture_of_experts, exact.mixture_of_experts)
        assert difference < 0.1 * kl_between(exact.mixture_of_experts, start)
