"""The node `demonstrator`, which moves the robot of the planar simulator like an expert, or as a person commands."""
