"""The node `ik_viewer`. It shows all solutions of a target that the user drags in RViz."""
