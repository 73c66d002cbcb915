"""Simulation of a GPU, for tests on a CPU that tensors of two devices never mix.

`Elsewhere` marks tensors as "on cuda:0". Marked tensors stay in the memory of the CPU, but report that device. Calls
that PyTorch would refuse with a GPU are refused: calls that mix marked and unmarked tensors, use a generator of the
other device, or convert a marked tensor to NumPy. A result is marked if an argument is marked or if the call names
that device. The simulation covers calls from Python, but not the backward passes of autograd.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name

CUDA, CPU = torch.device("cuda:0"), torch.device("cpu")
MARK = "_is_elsewhere"
ORIGINAL, COPY = torch.Generator, torch.nn.Parameter.__deepcopy__
TO_NUMPY = {"numpy", "__array__", "__dlpack__"}
TO_NUMBERS = {"item", "tolist", "__bool__", "__float__", "__int__", "__index__"}
SHAPES = {"__len__", "__repr__", "__format__", "dim", "size", "numel"}
INDEXING = {"__getitem__", "index", "index_select"}  # accepts indices on the CPU
# modules move their parameters with this function, so it may mix devices
FREE = {"_has_compatible_shallow_copy_type"}
JOINS = {"cat", "stack", "concatenate", "hstack", "vstack", "linear", "addmm", "matmul", "index_add_"}


class Generator(ORIGINAL):
    """Generator on the CPU that reports the requested device."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        made = ORIGINAL.__new__(cls, "cpu")
        made.reported = CUDA if torch.device(device).type == "cuda" else CPU
        return made

    def __init__(self, device: Any = "cpu") -> None: ...

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self.reported


GENERATORS = {ORIGINAL, Generator}  # isinstance would be slow, because PyTorch defines it in Python


@functools.cache
def names_of(func: Any) -> tuple[str, str, bool]:
    """Return the full and the short name of a function, and whether it reads or sets a property."""
    full = str(resolve_name(func) or getattr(func, "__qualname__", ""))
    is_property = full.endswith(("__get__", "__set__"))
    return full, full.split(".")[-2] if is_property else getattr(func, "__name__", full), is_property


def is_elsewhere(value: Any) -> bool:
    return isinstance(value, Tensor) and MARK in value.__dict__


def marked(value: Any) -> Any:
    """Mark tensors, including those inside sequences, dictionaries and iterators."""
    if isinstance(value, Tensor):
        value.__dict__[MARK] = True
    elif isinstance(value, (tuple, list)):
        for each in value:
            marked(each)
    elif isinstance(value, dict):
        marked(list(value.values()))
    elif isinstance(value, Iterator):
        return iter([marked(each) for each in value])
    return value


def tensors_in(values: Any) -> list[Tensor]:
    """Return the tensors among values. It is a loop over lists, because each call of torch runs it."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            found += tensors_in(value)
        elif isinstance(value, dict):
            found += tensors_in(value.values())
    return found


def copied(parameter: Tensor, memo: Any) -> Tensor:
    """Copy a parameter of a module and its mark, because the mode does not intercept PyTorch's copy."""
    return marked(COPY(parameter, memo)) if is_elsewhere(parameter) else COPY(parameter, memo)


class Elsewhere(TorchFunctionMode):
    """Mode in which "cuda" means the simulated GPU. It also replaces `torch.Generator`."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0  # number of values read from the device, each of which would wait for a real GPU

    def __enter__(self) -> Elsewhere:
        torch.Generator, torch.nn.Parameter.__deepcopy__ = Generator, copied  # type: ignore[misc,method-assign]
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        torch.Generator, torch.nn.Parameter.__deepcopy__ = ORIGINAL, COPY  # type: ignore[misc,method-assign]
        super().__exit__(*error)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        full, name, is_property = names_of(func)
        first = args[0] if args else None
        if is_property:
            return self._attribute(func, name, args)
        if name in TO_NUMPY and is_elsewhere(first):
            raise TypeError(f"can't convert cuda:0 device type tensor to numpy ({name})")
        if name in TO_NUMBERS or name in SHAPES or func is torch.device:
            self.reads += name in TO_NUMBERS and is_elsewhere(first)
            return func(*args, **kwargs)
        if name in ("to", "cpu", "cuda", "type_as"):
            return self._moved(func, name, args, kwargs)
        asked = kwargs.get("device")
        given = tensors_in(args) + tensors_in(kwargs.values()) if kwargs else tensors_in(args)
        here = [each for each in given if MARK not in each.__dict__]
        there = len(here) < len(given)
        if name == "__setitem__" and is_elsewhere(first):
            here = [each for each in tensors_in(args[2:]) if not is_elsewhere(each) and each.dim()]
        elif (name in INDEXING and is_elsewhere(first)) or name == "copy_" or name in FREE:
            here = []
        if there and any(each.dim() or name in JOINS for each in here):
            shapes = [tuple(each.shape) for each in here]
            raise RuntimeError(f"Expected all tensors to be on the same device, but found two: {full}, CPU {shapes}")
        result_there = there if asked is None else torch.device(asked).type == "cuda"
        if name == "copy_" or name == "__setitem__":
            result_there = is_elsewhere(first)
        generator = kwargs.get("generator") or next((each for each in args if type(each) in GENERATORS), None)
        if generator is not None and (generator.device.type == "cuda") != result_there:
            raise RuntimeError(f"Expected a generator of the device of the result: {full}")
        if asked is not None:
            kwargs["device"] = CPU
        result = func(*args, **kwargs)
        if name in ("as_tensor", "asarray", "tensor") and asked is not None and isinstance(first, Tensor):
            result = result.clone() if result is first else result
        return marked(result) if result_there else result

    def _attribute(self, func: Any, name: str, args: Any) -> Any:
        first = args[0]
        if name == "device":
            return CUDA if is_elsewhere(first) else CPU
        if name == "is_cuda":
            return is_elsewhere(first)
        if name == "is_cpu":
            return not is_elsewhere(first)
        value = func(*args)
        if name == "data" and len(args) == 2:
            first.__dict__.pop(MARK, None)
            return marked(first) if is_elsewhere(args[1]) else None
        return marked(value) if is_elsewhere(first) and isinstance(value, Tensor) else value

    def _moved(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        first, there = args[0], is_elsewhere(args[0])
        options = []
        for each in args[1:]:
            device = each
            if isinstance(each, str):
                device = torch.device(each)
            if isinstance(each, Tensor):
                there = is_elsewhere(each)
            if isinstance(device, torch.device):
                there = device.type == "cuda"
                each = CPU
            options.append(each)
        if kwargs.get("device") is not None:
            there = torch.device(kwargs["device"]).type == "cuda"
            kwargs["device"] = CPU
        if name in ("cpu", "cuda"):
            there = name == "cuda"
            func, options, kwargs = Tensor.clone, [], {}
        result = func(first, *options, **kwargs)
        if there != is_elsewhere(first):
            result = result.clone() if result is first else result
            result.__dict__.pop(MARK, None)
        return marked(result) if there else result
