"""How do I differentiate through the solver? Find the tip of a tool from joint angles recorded at known poses."""

import numpy as np
import torch

from eim_ros import Robot, Sampler

robot, home = Robot("ur5e"), [0.3, -1.4, 1.5, -1.7, -1.5, 0.2]
# offset from the flange to the tip, which is unknown to the rest of this script [m]
true_offset = [0.012, -0.007, 0.145]
rng = np.random.default_rng(0)
angles = np.array(home) + rng.uniform(-0.4, 0.4, (30, 6))
tips = torch.from_numpy(robot.with_tool(true_offset).fk(angles))  # poses that the tip touched
measured = torch.from_numpy(angles + 1e-4 * rng.normal(size=angles.shape))  # with the noise of encoders [rad]

sampler, offset = Sampler(robot), torch.zeros(3, dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.LBFGS([offset], lr=0.1, line_search_fn="strong_wolfe")  # the first step is 0.1 m


def error() -> torch.Tensor:
    """Mean squared difference between the angles that the solver expects for an offset and the measured ones."""
    optimizer.zero_grad()
    position = tips[:, :3, 3] - tips[:, :3, :3] @ offset
    flanges = torch.cat([torch.cat([tips[:, :3, :3], position[:, :, None]], 2), tips[:, 3:]], 1)
    value = (sampler.solve_batch(flanges, near=home, seed=0).q - measured).square().mean()
    value.backward()
    return value


before = error().item()
optimizer.step(error)
print(f"root mean square error: {before**0.5:.3f} rad without a tool, {error().item() ** 0.5:.5f} rad with it")
print("offset found [mm]:", (1e3 * offset.detach()).numpy().round(2), " true [mm]:", 1e3 * np.array(true_offset))
