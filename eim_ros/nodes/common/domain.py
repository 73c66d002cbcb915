"""ROS domains that only one program of this machine uses, for example for `eim demo`."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from eim_ros.core.errors import ServiceError

DEMO_DOMAINS = range(1, 51)  # 0 is the default of all programs
TEST_DOMAINS = range(51, 101)  # ports of domains above 101 may be in use


@contextlib.contextmanager
def own_domain(domains: range = DEMO_DOMAINS) -> Iterator[int]:
    """Reserve a domain until the context or the process ends. Other programs may call this function too.

    Two programs with nodes of the same names must not share a domain. Otherwise, the second program would use the
    recorder of the first one, and both would record the messages of two robots. `ServiceError` is raised if all domains
    are reserved.

    Examples
    --------
    >>> from eim_ros.nodes.common.domain import own_domain
    >>> with own_domain() as first, own_domain() as second:
    ...     first != second
    True
    """
    for domain in random.SystemRandom().sample(domains, len(domains)):
        try:
            lock = _opened(Path(tempfile.gettempdir(), f"eim_ros_domain_{domain}.lock"))
        except OSError:
            continue
        with contextlib.closing(os.fdopen(lock)):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield domain
            return
    raise ServiceError(f"other programs use all ROS domains from {domains[0]} to {domains[-1]}: end one of them", None)


def _opened(path: Path) -> int:
    """Open a lock file for reading, which is enough for a lock. The file may belong to another user."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    except PermissionError:  # Linux may refuse O_CREAT for the file of another user in a shared folder
        return os.open(path, os.O_RDONLY)
