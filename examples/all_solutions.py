"""All solutions of a pose in five lines, without training."""

from eim_ros.ik import Sampler

sampler = Sampler.of("panda")  # or Sampler.of("arm.urdf", base="base_link", tip="tool0")
samples = sampler.sample([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], n=100, random_seed=0)  # x, y, z [m], quaternion xyzw
print(samples.message, "largest error", samples.position_error.max(), "m")
for q in samples[:3]:
    print(q.round(3))
