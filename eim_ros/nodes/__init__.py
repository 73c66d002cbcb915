"""ROS 2 nodes: thin adapters between messages and the pure objects of `eim_ros.ik`.

Nothing is imported here, so that the pure parts (`settings`, `request_queue`) can be used without ROS.
"""
