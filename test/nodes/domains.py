"""Each process that runs tests on this machine uses a different ROS domain."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import tempfile
from collections.abc import Iterator

FIRST, LAST = 51, 100  # `eim demo` uses 1 to 50; ports of domains above 101 may be in use


@contextlib.contextmanager
def own_domain() -> Iterator[int]:
    """Return a domain that no other process uses. It is released when this process ends for any reason."""
    for domain in random.SystemRandom().sample(range(FIRST, LAST + 1), LAST + 1 - FIRST):
        path = os.path.join(tempfile.gettempdir(), f"eim_ros_domain_{domain}.lock")
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT)
        except OSError:
            continue  # the lock belongs to another user
        with contextlib.closing(os.fdopen(lock)):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield domain
            return
    raise RuntimeError(f"the ROS domains {FIRST} to {LAST} are all taken by tests")
