"""Data sets on disk: contexts and samples, with a description of where they come from; joints by name, resampling."""

from eim_ros.data.data_set import DataSet, load_data_set, save_data_set

__all__ = ["DataSet", "load_data_set", "save_data_set"]
