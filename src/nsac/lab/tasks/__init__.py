"""The tasks, one file per data family; importing this package registers all of them."""

from nsac.lab.tasks import bearings, carracing, forecasts, physionet, spirals, sporadic, tables, udacity

__all__ = ["bearings", "carracing", "forecasts", "physionet", "spirals", "sporadic", "tables", "udacity"]
