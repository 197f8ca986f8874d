"""The tasks, one file per data family; importing this package registers all of them."""

from nsac.lab.tasks import bearings, carracing, forecasts, spirals, tables, udacity

__all__ = ["bearings", "carracing", "forecasts", "spirals", "tables", "udacity"]
