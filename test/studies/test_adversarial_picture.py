"""Pictures of thesis 6.1: EIM is blue in both, and adversarial methods are in the first alone."""

from matplotlib.image import imread

from experiments.adversarial import EXPERIMENT, AdversarialComparisonConfig, draw
from experiments.pictures import METHOD_COLOURS
from experiments.table import Header, ResultTable

CONFIG = AdversarialComparisonConfig()


def share(image, colour):
    """Of the pixels that are about of a colour."""
    wanted = [int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5)]
    return float((abs(image - wanted).max(-1) < 0.02).mean())


def test_figures_show_their_methods_in_their_colours(tmp_path):
    rows = tuple({**cell, "seed": seed, "kl": 0.1 + seed} for cell in EXPERIMENT.cells(CONFIG) for seed in (0, 1))
    paths = draw(ResultTable(Header("adversarial", CONFIG.to_mapping(), {}), rows), tmp_path)
    assert [path.name for path in paths] == ["adversarial.png", "variants.png"]
    games, variants = (imread(path)[..., :3] for path in paths)
    for image in (games, variants):
        assert share(image, METHOD_COLOURS["EIM"]) > 1e-4
    assert share(games, METHOD_COLOURS["WGAN-GP"]) > 1e-4
    assert share(variants, METHOD_COLOURS["WGAN-GP"]) == 0.0


def test_table_without_adversarial_methods_has_the_other_figure(tmp_path):
    rows = ({**EXPERIMENT.cells(CONFIG)[0], "seed": 0, "kl": 0.1},)
    assert [path.name for path in draw(ResultTable(Header("adversarial", {}, {}), rows), tmp_path)] == ["variants.png"]
