"""Instruction sets of this processor, see `processor.cpp`."""

def runs_here(instruction_set: str) -> bool:
    """Return whether this processor has an instruction set: avx2 or baseline."""
