"""Quadratic forms in NumPy, computed from their definition l'e - 1/2 |R e|^2 with e = [x, y, 1]."""

import importlib
import importlib.util
from dataclasses import dataclass

import numpy as np
import pytest

from eim_ros.core._processor import runs_here
from eim_ros.core.native import INSTRUCTION_SETS

MODULE = "eim_ros.learning.models.native._quadratic_forms"


def compiled_for(instruction_set: str):
    """Return the module for an instruction set. Skip the test if the module is not built or cannot run here."""
    is_built = importlib.util.find_spec(f"{MODULE}_{instruction_set}") is not None
    if not (is_built and runs_here(instruction_set)):
        pytest.skip(f"this processor has no {instruction_set}, or a better one")
    return importlib.import_module(f"{MODULE}_{instruction_set}")


each_instruction_set = pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)


@dataclass(frozen=True)
class Forms:
    """Residuals R (n_components, n_dims, width + 1) and slopes l (n_components, width + 1) of all components."""

    residuals: np.ndarray
    linear: np.ndarray
    narrow: np.ndarray

    @classmethod
    def random(cls, n_components: int, n_dims: int, n_context: int, n_narrow: int = 0, seed: int = 0) -> "Forms":
        generator, width = np.random.default_rng(seed), n_dims + n_context
        residuals = generator.normal(size=(n_components, n_dims, width + 1))
        linear = generator.normal(size=(n_components, width + 1))
        return cls(residuals, linear, np.sort(generator.permutation(n_components)[:n_narrow]))

    @property
    def n_components(self) -> int:
        return len(self.linear)

    @property
    def n_dims(self) -> int:
        return self.residuals.shape[1]

    @property
    def width(self) -> int:
        return self.linear.shape[1] - 1

    def arguments(self) -> list[np.ndarray]:
        """Return the arguments of `SelectedForms`: coefficients, narrow components, and their residuals and slopes."""
        matrix = -0.5 * np.einsum("kai,kaj->kij", self.residuals, self.residuals)
        matrix[:, :, -1] += 0.5 * self.linear
        matrix[:, -1, :] += 0.5 * self.linear
        row, column = np.triu_indices(self.width + 1)
        coefficients = np.where(row == column, 1.0, 2.0) * matrix[:, row, column]
        coefficients[self.narrow] = 0.0
        return [coefficients, self.narrow, self.residuals[self.narrow], self.linear[self.narrow]]

    def compiled(self, instruction_set: str):
        return compiled_for(instruction_set).SelectedForms(*self.arguments())

    def values(self, joint: np.ndarray) -> np.ndarray:
        """Return the values of the forms, (n, n_components)."""
        extended = np.column_stack([joint, np.ones(len(joint))])
        residual = np.einsum("kai,ni->nka", self.residuals, extended)
        return extended @ self.linear.T - 0.5 * np.sum(residual**2, -1)

    def gradients(self, joint: np.ndarray) -> np.ndarray:
        """Return the gradients with respect to x, (n, n_components, n_dims)."""
        extended = np.column_stack([joint, np.ones(len(joint))])
        residual = np.einsum("kai,ni->nka", self.residuals, extended)
        return self.linear[:, : self.n_dims] - np.einsum("nka,kai->nki", residual, self.residuals[..., : self.n_dims])

    def points(self, n: int, seed: int = 1) -> np.ndarray:
        return np.random.default_rng(seed).normal(size=(n, self.width))


def products(joint: np.ndarray) -> np.ndarray:
    """Return the products e_a e_b of coordinates with a <= b."""
    extended = np.column_stack([joint, np.ones(len(joint))])
    row, column = np.triu_indices(extended.shape[1])
    return extended[:, row] * extended[:, column]


def laid_out_otherwise(array: np.ndarray) -> dict[str, np.ndarray]:
    """Return copies of the array with other memory layouts."""
    strided = np.repeat(array, 2, axis=-1)[..., ::2]
    read_only = array.copy()
    read_only.flags.writeable = False
    raw = np.empty(array.nbytes + 1, dtype=np.uint8)
    misaligned = raw[1:].view(array.dtype).reshape(array.shape)
    misaligned[...] = array
    return {
        "by columns": np.asfortranarray(array),
        "strided": strided,
        "reversed": array[::-1].copy()[::-1],
        "read-only": read_only,
        "misaligned": misaligned,
    }
