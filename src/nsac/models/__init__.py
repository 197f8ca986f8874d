"""Models: encoders, attention, trunk and head."""

from nsac.models.encoders import Encoded as Encoded
from nsac.models.encoders import SeriesEncoder as SeriesEncoder
from nsac.models.encoders import TableEncoder as TableEncoder
from nsac.models.encoders import WindowEncoder as WindowEncoder
from nsac.models.frames import FrameEncoder as FrameEncoder
from nsac.models.network import Features as Features
from nsac.models.network import Head as Head
from nsac.models.network import LinearReader as LinearReader
from nsac.models.network import Network as Network
from nsac.models.network import NetworkConfig as NetworkConfig
from nsac.models.network import Trunk as Trunk
from nsac.models.novelty import Novelty as Novelty
