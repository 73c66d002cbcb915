"""The node `training_coordinator`, which has a model trained by other nodes and loaded by the server."""
