"""Bounds of EIM's updates: settings that several experiments share."""

from __future__ import annotations

from dataclasses import dataclass

from eim_ros.core.settings import Settings, option


@dataclass(frozen=True)
class BoundsConfig(Settings):
    """Base class of settings with the bounds of EIM's updates. The default KL bounds are from thesis table B.1."""

    kl_bound: float = option(0.005, "maximum KL divergence of an expert's update", unit="nat", minimum=0.0)
    gating_kl_bound: float = option(0.005, "maximum KL divergence of the gating's update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(
        0.05,
        "maximum loss of entropy per update; an expert that becomes narrow too early can no longer move",
        unit="nat",
        minimum=0.0,
    )
    gating_entropy_loss_bound: float = option(
        0.05, "maximum loss of entropy per update of the gating", unit="nat", minimum=0.0
    )

    @property
    def m_step(self) -> dict[str, float]:
        """The bounds as settings of `EIMConfig`."""
        return {
            "m_step.kl_bound": self.kl_bound,
            "m_step.gating.kl_bound": self.gating_kl_bound,
            "m_step.entropy_loss_bound": self.entropy_loss_bound,
            "m_step.gating.entropy_loss_bound": self.gating_entropy_loss_bound,
        }
