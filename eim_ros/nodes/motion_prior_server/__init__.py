"""The node `motion_prior_server`, which samples, scores and conditions motions."""
