"""Code that several nodes share: process, parameters, asynchronous services, and loading of models and robots."""
