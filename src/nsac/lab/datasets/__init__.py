"""Data: generated, or read from files that are located or downloaded, and checked."""

from nsac.lab.datasets.bearings import Bearing as Bearing
from nsac.lab.datasets.bearings import RawBearing as RawBearing
from nsac.lab.datasets.bearings import bearings as bearings
from nsac.lab.datasets.bearings import load_bearing as load_bearing
from nsac.lab.datasets.bearings import load_raw_bearing as load_raw_bearing
from nsac.lab.datasets.bearings import raw_bearings as raw_bearings
from nsac.lab.datasets.catalog import Source as Source
from nsac.lab.datasets.catalog import catalog as catalog
from nsac.lab.datasets.spiral import Spirals as Spirals
from nsac.lab.datasets.spiral import make_spirals as make_spirals
from nsac.lab.datasets.store import DataError as DataError
from nsac.lab.datasets.store import locate as locate
from nsac.lab.datasets.summary import summarise as summarise
from nsac.lab.datasets.tables import FrameTable as FrameTable
from nsac.lab.datasets.tables import load_table as load_table
from nsac.lab.datasets.uci import Table as Table
from nsac.lab.datasets.uci import load_uci as load_uci
from nsac.lab.datasets.udacity import Drive as Drive
from nsac.lab.datasets.udacity import load_drive as load_drive
from nsac.lab.datasets.weather import load_ettm1 as load_ettm1
from nsac.lab.datasets.weather import load_jena as load_jena
from nsac.lab.datasets.weather import segments as segments
