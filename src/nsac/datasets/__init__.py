"""Data: generated, or parsed from real files that are found, or downloaded, and checked."""

from nsac.datasets.bearings import Bearing as Bearing
from nsac.datasets.bearings import RawBearing as RawBearing
from nsac.datasets.bearings import bearings as bearings
from nsac.datasets.bearings import load_bearing as load_bearing
from nsac.datasets.bearings import load_raw_bearing as load_raw_bearing
from nsac.datasets.bearings import raw_bearings as raw_bearings
from nsac.datasets.catalog import Source as Source
from nsac.datasets.catalog import catalog as catalog
from nsac.datasets.spiral import Spirals as Spirals
from nsac.datasets.spiral import make_spirals as make_spirals
from nsac.datasets.store import DataError as DataError
from nsac.datasets.store import locate as locate
from nsac.datasets.summary import summarise as summarise
from nsac.datasets.uci import Table as Table
from nsac.datasets.uci import load_uci as load_uci
from nsac.datasets.udacity import Drive as Drive
from nsac.datasets.udacity import load_drive as load_drive
from nsac.datasets.weather import load_ettm1 as load_ettm1
from nsac.datasets.weather import load_jena as load_jena
from nsac.datasets.weather import segments as segments
