"""What the thesis says about each experiment, and how a result table is held against it.

The file named like an experiment's module holds its `CLAIMS`. An experiment of which the thesis says nothing has none.
"""

from eim_ros.experiments.claims.claim import Claim, Finding, paired_means

__all__ = ["Claim", "Finding", "paired_means"]
