"""Bags of ROS 2: recorded, recovered after a kill, and read as data sets of motions or of pairs of pose and joints."""
