"""The node `demonstrator`: shows motions of an expert, or of a person, to the planar simulator."""
