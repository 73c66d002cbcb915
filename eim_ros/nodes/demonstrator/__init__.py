"""The node `demonstrator`, which drives the planar simulator with motions of an expert or commands of a person."""
