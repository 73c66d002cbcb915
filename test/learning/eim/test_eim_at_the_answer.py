"""A classifier that trains on the same data again and again learns them by heart; EIM does not follow it there."""

from learning.models.random_models import generator_of, normal
from learning.toys import small_eim_config

from eim_ros.learning import EMConfig
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM


def test_eim_with_a_classifier_stays_where_held_out_data_cannot_tell_the_model_from_them():
    """One Gaussian in six dimensions, and EM's fit of it: nothing is left to learn."""
    sample = normal(generator_of(0), 1000, 6) @ normal(generator_of(1), 6, 6)
    start = EM(EMConfig(n_components=1)).fit(sample).model
    drifted = {}
    for held_out in (0.1, 0.0):
        config = small_eim_config(
            n_components=1,
            n_iterations=20,
            **{"ratio.hidden_layers": (32, 32), "ratio.initial_epochs": 20, "ratio.validation_share": held_out},
        )
        model = EIM(config).fit(sample, start, generator=generator_of(2)).model
        drifted[held_out] = float((model.means - start.means).abs().max())
    assert drifted[0.1] == 0.0
    assert drifted[0.0] > 0.01  # with nothing held out every network is believed; the deviations are about 2
