"""The tasks, one file per family of data."""

from nsac.bench.tasks import bearings as bearings
from nsac.bench.tasks import forecasts as forecasts
from nsac.bench.tasks import spirals as spirals
from nsac.bench.tasks import tables as tables
