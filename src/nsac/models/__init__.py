"""Models: encoders of the kinds of data, attention, trunk and head."""

from nsac.models.encoder import Encoded as Encoded
from nsac.models.events import EventsEncoder as EventsEncoder
from nsac.models.frames import FrameEncoder as FrameEncoder
from nsac.models.network import Features as Features
from nsac.models.network import Head as Head
from nsac.models.network import Network as Network
from nsac.models.network import NetworkConfig as NetworkConfig
from nsac.models.network import Trunk as Trunk
from nsac.models.series import SeriesEncoder as SeriesEncoder
from nsac.models.table import TableEncoder as TableEncoder
from nsac.models.windows import WindowEncoder as WindowEncoder
