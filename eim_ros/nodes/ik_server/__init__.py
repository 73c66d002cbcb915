"""The node `ik_server`, which returns verified joint configurations for poses."""
