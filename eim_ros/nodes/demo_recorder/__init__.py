"""The node `demo_recorder`, which records topics of any type into bags that remain readable after a kill."""
