"""The node `demo_recorder`, which records topics of any type into bags that survive a kill of the process."""
