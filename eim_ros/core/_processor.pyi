"""Which instruction sets this processor has (`processor.cpp`)."""

def runs_here(instruction_set: str) -> bool:
    """Whether this processor has it: avx512, avx2 or baseline."""
