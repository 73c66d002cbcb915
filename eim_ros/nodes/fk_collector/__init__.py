"""The node `fk_collector`, which collects pairs of tip pose and configuration from joint states or by sampling."""
