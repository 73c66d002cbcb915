"""The node `ik_server`: verified joint configurations for poses."""
