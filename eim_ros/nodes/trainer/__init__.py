"""The node `trainer`. Its action trains models."""
