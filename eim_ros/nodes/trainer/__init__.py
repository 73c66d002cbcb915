"""The node `trainer`, which trains models through an action."""
