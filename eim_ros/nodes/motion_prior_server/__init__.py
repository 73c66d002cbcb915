"""The node `motion_prior_server`: samples, scores and conditions motions."""
