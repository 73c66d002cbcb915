"""Code shared by several nodes: process, parameters, asynchronous services, loading of models and of the robot."""
