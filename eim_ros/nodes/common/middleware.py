"""Settings of Fast DDS without which clients of a busy computer can miss a node's services, or answers.

Types. Fast DDS 3 (Kilted) requests the type description of each endpoint that it discovers, and ignores the endpoint
until the description arrives. If many processes start at the same time, requests or replies get lost and are not
repeated: a client then sees the node, but never its service. ROS 2 nodes know their types, so the profile disables the
exchange.

Heartbeats. A client requests a lost answer again when a heartbeat shows that it is missing. By default that takes up to
3 s, in which newer answers can fill the queue of a client with the default depth of 10. The profile sends heartbeats
after 50 ms, and only while an answer is unconfirmed.

Transport. With shared memory, Fast DDS 3.2.3 can deadlock while processes come and go (its issue 6502). So nodes use
UDP with larger socket buffers, as far as the system allows them (net.core.rmem_max). The recorder receives messages of
other nodes, and keeps shared memory.

`benchmarks/service_load.py one_shot` compares a server with and without the profile.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

from eim_ros.kinematics.shipped import share_path

__all__ = ["PROFILES", "PROFILES_VARIABLES", "TRANSPORTS_VARIABLE", "TYPE_PROPAGATION", "use_own_profiles"]

PROFILES = "config/fastdds.xml"
PROFILES_VARIABLES = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")
TRANSPORTS_VARIABLE = "FASTDDS_BUILTIN_TRANSPORTS"
TYPE_PROPAGATION = "fastdds.type_propagation"


def use_own_profiles(environment: MutableMapping[str, str] = os.environ, *, shared_memory: bool = False) -> None:
    """Make new participants of this process use `PROFILES`, unless the user has set a profile.

    They use UDP only unless `shared_memory` is true, or the user has chosen transports.
    """
    if any(environment.get(name) for name in PROFILES_VARIABLES):
        return
    environment[PROFILES_VARIABLES[0]] = str(share_path(PROFILES))
    if not shared_memory and not environment.get(TRANSPORTS_VARIABLE):
        environment[TRANSPORTS_VARIABLE] = "UDPv4"
