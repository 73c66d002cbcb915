"""The node `fk_collector`: pairs of tip pose and configuration, from joint states or by sampling."""
