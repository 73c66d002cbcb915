"""Find all ways in which an arm can reach a pose, learn from samples which are preferred, and serve both.

The names below are imported on first use, so that `import eim_ros` is fast and nothing waits for torch in vain.
"""

from pkgutil import extend_path
from typing import TYPE_CHECKING

from eim_ros.core.lazy import deferred_names

if TYPE_CHECKING:
    from eim_ros.core.errors import EimError
    from eim_ros.ik import Completeness, Constraints, JointPath, Sampler, Solutions
    from eim_ros.kinematics import Box, Capsule, Cylinder, Mesh, PointCloud, Robot, Sphere
    from eim_ros.learning import EIM, EM
    from eim_ros.learning.gmmvi import GMMVI
    from eim_ros.motion import MotionPrior

__all__ = [
    "EIM",
    "EM",
    "GMMVI",
    "Box",
    "Capsule",
    "Completeness",
    "Constraints",
    "Cylinder",
    "EimError",
    "JointPath",
    "Mesh",
    "MotionPrior",
    "PointCloud",
    "Robot",
    "Sampler",
    "Solutions",
    "Sphere",
]

# The generated msg, srv and action are in site-packages even if this folder is not (editable install).
__path__ = extend_path(__path__, __name__)

__version__ = "0.3.0"

__getattr__, __dir__ = deferred_names(__name__, __file__)
