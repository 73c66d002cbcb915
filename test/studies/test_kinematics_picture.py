"""The picture of figure 6.6: one for each robot, all methods in its legend, errors over components and iterations."""

from matplotlib.axes import Axes

from experiments import kinematics
from experiments.kinematics import CURVES, EXPERIMENT, KinematicsConfig
from experiments.table import Header, ResultTable


def table() -> ResultTable:
    rows = []
    for cell in EXPERIMENT.cells(KinematicsConfig(n_components=(10, 25))):
        for seed in (0, 1):
            figures = dict.fromkeys(CURVES, 0.5 + 0.1 * seed)
            rows.append({**cell, "seed": seed, **figures, **{column: [0.9, 0.7, 0.5] for column in CURVES.values()}})
    return ResultTable(Header("kinematics", {}, {}), tuple(rows))


def test_each_robot_has_its_picture_and_each_method_its_name(tmp_path, monkeypatch):
    labels = []
    monkeypatch.setattr(Axes, "legend", lambda self, **_: labels.append(self.get_legend_handles_labels()[1]))
    paths = kinematics.draw(table(), tmp_path)
    assert [path.name for path in paths] == ["kinematics_iiwa14.png", "kinematics_panda.png"]
    assert all(path.exists() for path in paths)
    ours = ["EIM, ours (classifier)", "EIM, ours (plug-in)", "EIM, ours (kinematics known)"]
    assert labels == [["EM", "EIM (classifier)", *ours], ["EM", *ours]]


def test_curves_are_those_with_the_most_experts_one_for_each_seed(tmp_path, monkeypatch):
    drawn = []
    plot = Axes.plot

    def kept(self, *args, **options):
        drawn.append(list(args[1]))
        return plot(self, *args, **options)

    monkeypatch.setattr(Axes, "plot", kept)
    kinematics.draw(table(), tmp_path)
    assert (
        sum(values == [0.9, 0.7, 0.5] for values in drawn) == 3 * (5 + 4) * 2
    )  # figures, methods of both robots, seeds
