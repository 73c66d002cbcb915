"""Find many solutions of a pose in five lines, without training."""

from eim_ros import Sampler

sampler = Sampler("panda")  # or Sampler("arm.urdf", tip="tool0")
samples = sampler.sample([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], n=100, seed=0)  # x, y, z [m], quaternion xyzw
print(samples.message, "largest error", samples.position_error.max(), "m")
for q in samples[:3]:
    print(q.round(3))
