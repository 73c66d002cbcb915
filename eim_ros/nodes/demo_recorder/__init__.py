"""The node `demo_recorder`: topics of any type into bags that survive a kill."""
