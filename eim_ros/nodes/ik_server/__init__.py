"""The node `ik_server`. It returns verified joint configurations for poses."""
