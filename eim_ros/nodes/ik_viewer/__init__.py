"""The node `ik_viewer`: all solutions of a target that is dragged in RViz."""
