"""Kernels on a GPU return the rows of the processor, from tensors and arrays. These tests are skipped without a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from ik.device.test_device_sampler import ALL, configurations, sampler_of

from eim_ros.core.errors import EimError
from eim_ros.ik.rating import rate

try:
    sampler_of("ur5e").on("cuda")
    MISSING = ""
except EimError as error:
    MISSING = str(error)
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs a GPU: {MISSING}")


@pytest.mark.parametrize("special", [False, True], ids=["random", "special"])
@pytest.mark.parametrize("name", ALL)
def test_gpu_gives_the_rows_of_the_processor(name: str, special: bool) -> None:
    """Operations round as on the processor. Therefore rows differ only at a few poses that rounding decides."""
    sampler = sampler_of(name)
    poses = sampler.robot.fk(configurations(name, 500, special))
    found, expected = (sampler.on(device).sample_batch(poses, 4, seed=3) for device in ("cuda", "cpu"))
    assert (found.counts == expected.counts).mean() > 0.99
    same = np.isclose(found.q, expected.q, rtol=0.0, atol=1e-6, equal_nan=True).all(axis=(1, 2))
    assert same.mean() > 0.99
    assert np.nanmax(found.errors) < 1e-6


def test_tensors_stay_on_the_gpu_and_in_their_stream() -> None:
    torch = pytest.importorskip("torch")
    poses = sampler_of("ur5e").robot.fk(configurations("ur5e", 1000, False))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        found = sampler_of("ur5e").on("cuda").solve_all_batch(torch.from_numpy(poses).cuda())
    stream.synchronize()
    expected = sampler_of("ur5e").on("cpu").solve_all_batch(poses)
    assert found.q.is_cuda and (found.counts.cpu().numpy() == expected.counts).all()
    assert len(found.cpu()) == len(expected.cpu())


def test_arrays_of_cupy_give_arrays_of_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    poses = sampler_of("panda").robot.fk(configurations("panda", 1000, False))
    found = sampler_of("panda").on("cuda").sample_batch(cupy.asarray(poses), 4, seed=1)
    assert isinstance(found.q, cupy.ndarray) and (found.counts == 4).all()


@pytest.mark.parametrize("name", ["panda", "iiwa14", "xarm7"])
def test_single_precision_rules_out_no_branch_that_exists(name: str) -> None:
    poses = sampler_of(name).robot.fk(configurations(name, 2000, False))
    single, double = sampler_of(name).on("cuda"), sampler_of(name).on("cuda")
    single._screens, double._screens = True, False
    found, expected = single.sample_batch(poses, 8, seed=1), double.sample_batch(poses, 8, seed=1)
    np.testing.assert_array_equal(found.q, expected.q)


@pytest.mark.parametrize("name", ["ur5e", "panda", "gen3"])
def test_poses_are_rated_as_on_the_processor(name: str) -> None:
    poses = sampler_of(name).robot.fk(configurations(name, 1000, False))
    poses[500:, :3, 3] *= np.random.default_rng(0).uniform(0.5, 3.0, (500, 1))
    found, expected = (rate(sampler_of(name), poses, 0, device) for device in ("cuda", "cpu"))
    assert ((found.n_solutions > 0) == (expected.n_solutions > 0)).mean() > 0.99
    assert np.isclose(found.manipulability, expected.manipulability, rtol=1e-6, atol=1e-9).mean() > 0.99
