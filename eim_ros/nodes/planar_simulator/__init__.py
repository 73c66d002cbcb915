"""The node `planar_simulator`: a planar robot without masses that executes trajectories."""
