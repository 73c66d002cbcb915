"""Training of inverse kinematics models from a data set of an arm. This module needs torch.

`Training` runs EM, truncated EM, EIM, EIM with kinematic inputs, or inference with known kinematics.

**EIM with kinematic inputs** (thesis 4.3.1, extra features theta(x)). The samples of an arm satisfy FK(q) = y exactly.
A classifier with the input FK(q) - y would separate the classes perfectly, and its density ratio would be meaningless.
Therefore the contexts of both classes are smoothed, y~ = y + sigma n with n ~ N(0, I), and sigma is annealed. The
second factor of the smoothed density p(q, y~) = p(q) N(y~; FK(q), sigma^2 I) is known. The network therefore only
learns p(q) from the samples.

**Inference with known kinematics** (thesis 5.5) fits a model to the target

    log p(q | y) = -1/2 |FK(q) - y|^2 / sigma^2 + soft joint limits + log prior(q | y)

up to a constant. Training needs contexts y that can be reached, but no solutions. Sigma decreases in each iteration,
because a wide target is easy to cover, and each narrower target is close to the previous one.

`forward_context` is a differentiable torch function around the compiled forward kinematics, in float64. Its gradient is
exact. It uses the linear Jacobian for the position, and dr = omega x r for each column r of the rotation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from eim_ros.core.checks import checked_whole, expect, with_hints
from eim_ros.core.data_set import DataSet
from eim_ros.core.errors import ConfigurationError, DataError, ModelFileError
from eim_ros.core.parallel import tell, torch_threads
from eim_ros.core.settings import Settings, option
from eim_ros.ik.data import context_kind_of, robot_of
from eim_ros.ik.prior import IKModel
from eim_ros.kinematics import CONTEXT_KINDS, Robot, context_from_pose
from eim_ros.learning import EIM, EM, EIMConfig, EMConfig, FitResult
from eim_ros.learning.em import TruncatedEM, TruncatedEMConfig
from eim_ros.learning.learner import Learner, checked_device
from eim_ros.learning.models import MixtureOfExperts
from eim_ros.learning.run import RunOptions, Status

FitConfig: TypeAlias = EMConfig | TruncatedEMConfig | EIMConfig
ERROR_CLIP = 20.0  # largest error in the input of the network, in units of sigma
VIOLATION_SHOWN = 0.02  # violation of a limit that is 1 in the input of the network, as a share of the joint's range


def forward_context(robot: Robot, q: Tensor, kind: str) -> Tensor:
    """Compute the contexts (n_samples, 3) or (n_samples, 9) that configurations (n_samples, dof) reach.

    The kind is "position" or "pose". The result has the dtype and device of `q`, and can be differentiated once.
    """
    context: Tensor = _ForwardContext.apply(q, robot, kind)  # type: ignore[no-untyped-call]
    return context


class _ForwardContext(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, robot: Robot, kind: str) -> Tensor:
        rows = q.detach().to("cpu", torch.float64).contiguous().numpy()
        poses = robot.fk(rows)
        if ctx.needs_input_grad[0]:
            ctx.derivative = _derivative(robot.jacobian(rows), poses, kind)
        return torch.from_numpy(context_from_pose(poses, kind)).to(q)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        outer = gradient.detach().to("cpu", torch.float64).numpy()
        inner = np.einsum("nc,ncd->nd", outer, ctx.derivative)
        return torch.from_numpy(inner).to(gradient), None, None


def _derivative(jacobians: np.ndarray[Any, Any], poses: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    """Return the derivative (n, n_context, dof) of the context with respect to q."""
    linear, angular = jacobians[:, :3], jacobians[:, 3:]
    if CONTEXT_KINDS[kind] == 3:
        return linear
    columns = [np.cross(angular, poses[:, :3, i, None], axis=1) for i in (0, 1)]
    return np.concatenate([linear, *columns], axis=1)


@with_hints
@dataclass(frozen=True)
class SmoothingConfig(Settings):
    """Settings of the smoothed density p(q, y~) = p(q) N(y~; FK(q), sigma^2 I), and of the annealing of sigma.

    Examples
    --------
    Train EIM with known kinematics and a narrower smoothing than by default:

    >>> from eim_ros.ik import SmoothingConfig, Training
    >>> from eim_ros.learning import EIMConfig
    >>> smoothing = SmoothingConfig(sigma_decay=0.95, sigma_floor=0.02)
    >>> Training(EIMConfig.known_kinematics(), smoothing=smoothing, known=True).algorithm
    'known-density'
    """

    sigma_start: float = option(0.5, "smoothing at the start, relative to the spread of the positions", minimum=1e-6)
    sigma_decay: float = option(
        0.96, "factor by which the smoothing shrinks in each iteration", minimum=0.0, maximum=1.0
    )
    sigma_floor: float = option(0.05, "minimum smoothing, relative to the spread of the positions", minimum=1e-6)
    limit_softness: float = option(
        0.01, "standard deviation of the soft joint limits, as a share of the joint's range", minimum=1e-6
    )


KNOWN_SMOOTHING = SmoothingConfig(sigma_decay=0.95)  # default with known kinematics


@dataclass(frozen=True)
class KinematicInputs:
    """Inputs of the density ratio for an arm. The class satisfies `eim_ros.learning.ratio.RatioInputs`.

    Attributes
    ----------
    robot : Robot
    kind : str
        Kind of the contexts, "position" or "pose".
    center, scale : Tensor (n_context,)
        Standardisation of the contexts.
    spread : float
        Root mean square standard deviation of the positions [m]. Errors are divided by this value, so that they do not
        depend on the size of the robot. A difference of 1 between rotation columns counts as one spread.
    config : SmoothingConfig
    """

    robot: Robot
    kind: str
    center: Tensor
    scale: Tensor
    spread: float
    config: SmoothingConfig = SmoothingConfig()

    @classmethod
    def from_data(cls, robot: Robot, kind: str, context: Tensor, config: SmoothingConfig) -> KinematicInputs:
        spread = float(context[:, :3].var(0, correction=0).mean().sqrt()) or 1.0
        scale = context.std(0, correction=0)
        constant = torch.ones_like(scale)  # a column may be constant, such as the height of a planar robot
        constant[:3] = spread
        return cls(robot, kind, context.mean(0), torch.where(scale > 0.0, scale, constant), spread, config)

    @property
    def n_inputs(self) -> int:
        return 2 * self.robot.dof + 2 * len(self.center) + 1

    def sigma(self, iteration: int) -> float:
        """Return the smoothing of positions [m] at an iteration."""
        share = max(self.config.sigma_floor, self.config.sigma_start * self.config.sigma_decay**iteration)
        return share * self.spread

    def smoothing(self, iteration: int) -> Tensor:
        return self.sigma(iteration) / self._metric()

    def known_log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        violation = self._violation(sample) / self.config.limit_softness
        return -0.5 * (self._error(context, sample, iteration).square().sum(-1) + violation.square().sum(-1))

    def __call__(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        error = self._error(context, sample, iteration)
        squared = error.square().sum(-1, keepdim=True) / ERROR_CLIP
        shown = [error.clamp(-ERROR_CLIP, ERROR_CLIP), -squared.clamp_max(ERROR_CLIP)]
        violation = self._violation(sample) / VIOLATION_SHOWN
        return torch.cat([self._relative(sample), (context - self.center) / self.scale, *shown, violation], -1)

    def _metric(self) -> Tensor:
        metric = torch.ones_like(self.center)
        metric[3:] = self.spread
        return metric

    def _error(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        """Return the errors (FK(q) - y) / sigma (n_samples, n_context)."""
        return (forward_context(self.robot, sample, self.kind) - context) * (self._metric() / self.sigma(iteration))

    def _relative(self, sample: Tensor) -> Tensor:
        """Return joint values (n_samples, dof) scaled from -2 at the lower limit to 2 at the upper limit."""
        lower, upper, extent = self._limits(sample)
        return (4.0 * sample - 2.0 * (lower + upper)) / extent

    def _violation(self, sample: Tensor) -> Tensor:
        """Return how far joints (n_samples, dof) exceed their limits, as a share of their ranges."""
        lower, upper, extent = self._limits(sample)
        return (torch.relu(sample - upper) + torch.relu(lower - sample)) / extent

    def _limits(self, sample: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the lower limits, upper limits and ranges (dof,). The range of a fixed joint is set to 1."""
        lower, upper = torch.tensor(self.robot.lower).to(sample), torch.tensor(self.robot.upper).to(sample)
        return lower, upper, torch.where(upper > lower, upper - lower, torch.ones_like(upper))


@dataclass(frozen=True)
class KinematicTarget:
    """Annealed target log p(q | y) of `EIM`.

    Attributes
    ----------
    inputs : KinematicInputs
        Inputs that compute errors and violations of limits.
    log_prior : callable, optional
        Function that returns log densities (n,) [nat] for contexts (n, n_context) and configurations (n, dof) by torch
        operations. Examples are a model of demonstrations and a negative cost. Default: uniform within the limits.

    Examples
    --------
    The target becomes narrower with each iteration, so a configuration that misses its context becomes less probable:

    >>> import torch
    >>> from eim_ros import Robot
    >>> from eim_ros.ik import KinematicInputs, KinematicTarget, SmoothingConfig, collect
    >>> robot = Robot("panda")
    >>> pairs = collect(robot, 100, "position", seed=0)
    >>> context, q = torch.from_numpy(pairs.context), torch.from_numpy(pairs.sample)
    >>> target = KinematicTarget(KinematicInputs.from_data(robot, "position", context, SmoothingConfig()))
    >>> bool(target.at(50)(context, q + 0.1).mean() < target.at(0)(context, q + 0.1).mean())
    True
    """

    inputs: KinematicInputs
    log_prior: Callable[[Tensor, Tensor], Tensor] | None = None

    @property
    def config(self) -> SmoothingConfig:
        """Settings of the smoothing, for the record of the training."""
        return self.inputs.config

    def at(self, iteration: int) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the target at an iteration, a function of contexts (n, n_context) and configurations (n, dof)."""

        def log_density(context: Tensor, sample: Tensor) -> Tensor:
            value = self.inputs.known_log_density(context, sample, iteration)
            return value if self.log_prior is None else value + self.log_prior(context, sample)

        return log_density


@dataclass(frozen=True)
class TrainingRun:
    """Result of a training: the model, the status of the run and its records."""

    model: IKModel
    result: FitResult[Any]

    @property
    def status(self) -> Status:
        return self.result.status


@with_hints
@dataclass(frozen=True)
class Training:
    """Training of an inverse kinematics model.

    Attributes
    ----------
    learner : EMConfig, TruncatedEMConfig or EIMConfig
        Settings of the learner. Their type selects EM, truncated EM or EIM.
    seed : int
        Seed of the training.
    device : str
        Torch device of EIM, "cpu" or "cuda".
    smoothing : SmoothingConfig, optional
        Settings of the smoothing if the density ratio uses forward kinematics. Suitable settings of the learner are
        `EIMConfig.kinematic()`. Without `smoothing`, EIM learns only from the samples.
    known : bool
        Whether the kinematics are the target, so that only contexts are needed. Suitable settings of the learner are
        `EIMConfig.known_kinematics()`. The default of `smoothing` is then `KNOWN_SMOOTHING`.

    Examples
    --------
    >>> from eim_ros import Robot
    >>> from eim_ros.ik import Training, collect
    >>> from eim_ros.learning import EMConfig
    >>> training = Training(EMConfig(n_components=5, n_iterations=3), seed=0)
    >>> run = training.run(collect(Robot("panda"), 200, "position", seed=0))
    >>> run.model.context_kind, run.model.mixture.n_components, run.status.value
    ('position', 5, 'max_iterations')
    """

    learner: FitConfig = EIMConfig()
    seed: int = 0
    device: str = "cpu"
    smoothing: SmoothingConfig | None = None
    known: bool = False

    def __post_init__(self) -> None:
        expect(self.learner, Settings, "learner")
        checked_whole(self.seed, 0, "the seed")
        checked_device(self.device)
        if self.known and self.smoothing is None:
            object.__setattr__(self, "smoothing", KNOWN_SMOOTHING)
        if self.smoothing is not None:
            expect(self.smoothing, SmoothingConfig, "smoothing")
            expect(self.learner, EIMConfig, "the learner with kinematics")

    @property
    def algorithm(self) -> str:
        """Name of the learner, as on the command line."""
        if self.known:
            return "known-density"
        return "eim-kinematics" if self.smoothing is not None else self._learner(None, None).algorithm

    @torch_threads()
    def run(
        self,
        data_set: DataSet,
        robot: Robot | None = None,
        *,
        initial: IKModel | None = None,
        prior: IKModel | None = None,
        run: RunOptions = RunOptions(),
    ) -> TrainingRun:
        """Train a model.

        Parameters
        ----------
        data_set : DataSet
        robot : Robot, optional
            Robot of the data set, if it is already loaded.
        initial : IKModel, optional
            Model of the same robot and context from which the training starts. Default: the start of the learner.
        prior : IKModel, optional
            Model of demonstrations for the same robot and context. The target is multiplied by the density of this
            model, so that solutions are both accurate and preferred. A prior requires known kinematics.
        run : RunOptions
            Callbacks and checkpoints.

        Raises
        ------
        DataError, ModelFileError, ConfigurationError
            If the data set is empty, a model belongs to another robot or context, or the prior is not allowed.
        """
        robot, kind = robot_of(data_set, robot), context_kind_of(data_set)
        if not len(data_set):
            raise DataError("the data set is empty; expected at least one pair of pose and configuration", 0)
        context = torch.from_numpy(data_set.context).to(self.device)
        sample = torch.from_numpy(data_set.sample).to(self.device)
        start = None if initial is None else _mixture_of(initial, "initial model", robot, kind)
        if prior is not None and not self.known:
            raise ConfigurationError(
                f"a prior works only with known-density, not with {self.algorithm}: leave out the prior", self.algorithm
            )
        inputs = target = None
        if self.smoothing is not None:
            inputs = KinematicInputs.from_data(robot, kind, context, self.smoothing)
        if self.known and inputs is not None:
            demonstrated = None if prior is None else _mixture_of(prior, "prior", robot, kind).to(device=self.device)
            target = KinematicTarget(inputs, None if demonstrated is None else demonstrated.log_prob)
            if start is None:
                start = self._by_em(context, sample)
        generator = torch.Generator(sample.device).manual_seed(self.seed)
        result = self._learner(inputs, target).fit((context, sample), start, generator=generator, run=run)
        mixture = result.mixture_of_experts.to(device="cpu")
        record = {
            **result.record(),
            "algorithm": self.algorithm,
            "data_seed": data_set.description.get("seed"),
            "data_source": data_set.description.get("source"),
        }
        return TrainingRun(IKModel(mixture, robot, kind, record), result)

    def _learner(self, inputs: KinematicInputs | None, target: KinematicTarget | None) -> Learner[Any, Any]:
        """Return the learner for the settings."""
        if isinstance(self.learner, EMConfig):
            return EM(self.learner)
        if isinstance(self.learner, TruncatedEMConfig):
            return TruncatedEM(self.learner)
        return EIM(self.learner, inputs, target=target)

    def _by_em(self, context: Tensor, sample: Tensor) -> MixtureOfExperts:
        """Return a start by truncated EM. It takes a few percent of the total time."""
        assert isinstance(self.learner, EIMConfig)
        n, n_iterations = self.learner.n_components, self.learner.start.em_iterations
        config = TruncatedEMConfig(n_components=n, n_iterations=n_iterations, tolerance=0.0)
        generator = torch.Generator(sample.device).manual_seed(self.seed)
        run = RunOptions(callbacks=[lambda state, record: tell("start", state.iteration, n_iterations)])
        result = TruncatedEM(config).fit((context, sample), generator=generator, run=run)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return result.mixture_of_experts


def _mixture_of(model: IKModel, role: str, robot: Robot, kind: str) -> MixtureOfExperts:
    """Return the mixture of a model; raise `ModelFileError` if the data have another robot or context."""
    expect(model, IKModel, f"the {role}", ModelFileError)
    if model.robot.fingerprint != robot.fingerprint or model.context_kind != kind:
        raise ModelFileError(
            f"the {role} belongs to robot '{model.robot.name}' and context {model.context_kind}, but the data belong "
            f"to robot '{robot.name}' and context {kind}: give a {role} for the data",
            model.robot.name,
        )
    return model.mixture
