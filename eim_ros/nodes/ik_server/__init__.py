"""The node `ik_server`: joint configurations for poses, sampled, refined and verified."""
