"""What several nodes share: process, parameters, services that answer later, loading of models, the robot."""
