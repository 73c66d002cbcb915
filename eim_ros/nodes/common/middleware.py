"""Settings of Fast DDS without which clients of a busy host miss a node's services, or answers of them.

Types. Fast DDS 3 (Kilted) asks the process of each endpoint that it discovers for the description of its type, and
takes the endpoint for discovered when that has come. Where many processes start at a time, what is asked or answered
gets lost, and is not sent again: of clients that started 20 at a time, one of 10 to 30 saw the node but never its
service, however long it waited. Nodes of ROS 2 know their types and need no descriptions; who gives none is asked for
none. Earlier versions of Fast DDS did not ask.

Heartbeats. An answer that was lost on its way is sent again when the client, told of it by a heartbeat, misses it. By
default that may take 3 s, in which other answers fill the ten places that an ordinary client has: 28 of 765 answers
were lost so. Here a heartbeat follows after 50 ms, and only while an answer is not confirmed.

Transport. The thread of Fast DDS's timers acknowledges messages. When a process says meanwhile that it has gone, the
thread that hears it waits for the timers, with the lock in its hand that the next timer needs: a deadlock (its issue
6502), after which nothing is heard any more. The longer sending takes the likelier it is. By UDP that is one system
call; by shared memory ports of processes are opened, checked and removed, and servers met it within minutes where 20
clients came and went at a time. So ours talk by UDP. Messages, large ones too, take as long (`service_latency.txt`); a
larger buffer of the sockets keeps large ones that are not sent again, as far as the system allows (net.core.rmem_max).
The recorder, which takes those of others, stays with shared memory. Where it happens all the same: `lockup`.
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
    """Have participants of this process that are made from now on use `PROFILES`, unless the user has profiles.

    By UDP alone without `shared_memory`, unless the user has chosen transports.
    """
    if any(environment.get(name) for name in PROFILES_VARIABLES):
        return
    environment[PROFILES_VARIABLES[0]] = str(share_path(PROFILES))
    if not shared_memory and not environment.get(TRANSPORTS_VARIABLE):
        environment[TRANSPORTS_VARIABLE] = "UDPv4"
