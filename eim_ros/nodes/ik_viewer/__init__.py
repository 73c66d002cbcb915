"""The node `ik_viewer`: all solutions of a target that the user drags in RViz."""
