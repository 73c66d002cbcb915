"""The auxiliary distribution of EIM where there are many components: truncated, with its error monitored.

The bound of EIM needs q~(z|x, y) at samples of the model (thesis 3.2); the best one is the posterior, and then only
log q_old(x|y) is left of it, a sum over all components. With q~ = q(x, z|y)/q_K(x|y), K the components nearest to the
one that drew the sample, log q_K takes its place: the bound is wrong by delta = E[-log mass of K] (Luecke 2016,
eq. 19 to 21).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from eim_ros.distributions import MixtureOfExperts
from eim_ros.distributions.prepared_mixture import PreparedMixture
from eim_ros.settings import Settings, option

__all__ = ["AuxiliaryConfig"]


@dataclass(frozen=True)
class AuxiliaryConfig(Settings):
    """Settings of the auxiliary distribution."""

    n_auxiliary_states: int = option(
        16, "components of the auxiliary distribution, if it is truncated; 0: it never is", minimum=0
    )
    exact_auxiliary_below: int = option(
        200, "number of the model's components from which on the auxiliary distribution is truncated", minimum=0
    )

    def prepared(self, model: MixtureOfExperts, context: Tensor, sample: Tensor) -> PreparedMixture:
        """A model whose density at its own samples is truncated where it has many components.

        Parameters
        ----------
        model : MixtureOfExperts
        context : Tensor (n, n_context)
            Contexts of the data.
        sample : Tensor (n, n_dims)
            Samples of the data, or of the model.
        """
        few = model.n_components < self.exact_auxiliary_below
        return PreparedMixture(model, context, sample, 0 if few else self.n_auxiliary_states)
