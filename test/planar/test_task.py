"""Distance to the goal and clearance of the links agree with hand-made and densely sampled geometry."""

import pytest
import torch

from eim_ros.core.errors import ConfigurationError
from eim_ros.planar import PlanarArm, line_task, point_task

LINE = line_task((7.0, -5.0), (7.0, 5.0))


def test_distance_to_a_line_ends_at_its_ends():
    tips = torch.tensor([[6.0, 2.0], [7.5, -4.0], [7.0, 8.0], [3.0, -8.0]]).double()
    assert LINE.distance(tips).tolist() == [1.0, 0.5, 3.0, 5.0]
    assert LINE.along(tips).tolist() == [7.0, 1.0, 10.0, 0.0]
    assert LINE.normal_coordinate(tips).tolist() == [-1.0, 0.5, 0.0, -4.0]


def test_normal_coordinate_of_a_slanted_line_is_the_signed_distance():
    task = line_task((0.0, 0.0), (3.0, 4.0))
    tip = torch.tensor([1.5, 2.0], dtype=torch.float64) + torch.tensor([0.8, -0.6], dtype=torch.float64) * 0.25
    torch.testing.assert_close(task.normal_coordinate(tip), torch.tensor(0.25).double(), rtol=0.0, atol=1e-14)
    torch.testing.assert_close(task.distance(tip), torch.tensor(0.25).double(), rtol=0.0, atol=1e-14)


def test_distance_to_a_point_is_euclidean():
    task = point_task((3.0, 4.0))
    assert task.distance(torch.zeros(2).double()).item() == 5.0
    assert not task.is_line
    with pytest.raises(ConfigurationError, match="no normal coordinate"):
        task.normal_coordinate(torch.zeros(2).double())


def test_clearance_is_the_least_gap_of_all_links_and_discs():
    arm = PlanarArm(n_links=6)
    task = point_task((3.0, 0.0), (2.0, 1.0, 0.3, -1.0, -2.0, 1.1, 4.0, 0.1, 0.2))
    q = torch.randn(50, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    points = arm.points(q)
    share = torch.linspace(0.0, 1.0, 2001, dtype=torch.float64)[:, None]
    dense = points[:, :-1, None] + share * (points[:, 1:, None] - points[:, :-1, None])
    gaps = (dense.flatten(1, 2).unsqueeze(2) - task.obstacles[:, :2]).norm(dim=-1) - task.obstacles[:, 2]
    expected = gaps.flatten(1).amin(1)
    # points that are 0.5 mm apart miss the nearest point of a link by up to 0.25 mm, which is the largest error
    torch.testing.assert_close(task.clearance(points), expected, rtol=0.0, atol=2.5e-4)


def test_clearance_without_obstacles_is_infinite():
    points = PlanarArm().points(torch.zeros(3, 10).double())
    assert LINE.clearance(points).tolist() == [float("inf")] * 3


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: line_task((1.0, 1.0), (1.0, 1.0)), "must differ"),
        (lambda: line_task((1.0, float("nan")), (1.0, 1.0)), "finite"),
        (lambda: point_task((1.0,)), "points of x, y"),
        (lambda: point_task((1.0, 0.0), (1.0, 2.0)), "x, y and radius"),
        (lambda: point_task((1.0, 0.0), (1.0, 2.0, 0.0)), "radius"),
        (lambda: point_task((1.0, 0.0), tolerance=0.0), "tolerance"),
    ],
)
def test_bad_task_is_refused_with_a_reason(make, reason):
    with pytest.raises(ConfigurationError, match=reason):
        make()
