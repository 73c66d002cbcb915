"""The node `trainer`: an action that learns models."""
