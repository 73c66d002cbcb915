"""ROS 2 bags: recording, recovery of truncated files, and import as data sets of motions or of pose and joint pairs."""
