"""The tasks, one file per data family; importing this package registers all of them."""

from nsac.lab.tasks import bearings as bearings
from nsac.lab.tasks import carracing as carracing
from nsac.lab.tasks import forecasts as forecasts
from nsac.lab.tasks import spirals as spirals
from nsac.lab.tasks import tables as tables
from nsac.lab.tasks import udacity as udacity
