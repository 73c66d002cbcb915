"""ROS 2 bags: recording, recovery of truncated files, and import as motions or as pairs of pose and configuration."""
