"""The node `planar_simulator`: a kinematic simulator of a planar robot that executes trajectories."""
