"""Data sets on disk: pairs of contexts and samples, with a description of where they come from; bags they are made of."""

from eim_ros.data.data_set import DataSet, load_data_set, save_data_set

__all__ = ["DataSet", "load_data_set", "save_data_set"]
