"""The node `trainer`, whose action trains models."""
