"""The node `ik_viewer`, which shows all solutions of a target that the user drags in RViz."""
