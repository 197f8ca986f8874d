"""Training: one loop for every model with a loss and a validation score."""

from nsac.training.checkpoint import CheckpointError as CheckpointError
from nsac.training.config import TrainConfig as TrainConfig
from nsac.training.data import Data as Data
from nsac.training.data import Subset as Subset
from nsac.training.data import TensorData as TensorData
from nsac.training.data import batches as batches
from nsac.training.events import ChannelScale as ChannelScale
from nsac.training.events import EventsData as EventsData
from nsac.training.events import Queries as Queries
from nsac.training.events import cut_origins as cut_origins
from nsac.training.loop import DivergedError as DivergedError
from nsac.training.loop import Interrupted as Interrupted
from nsac.training.loop import Trainable as Trainable
from nsac.training.loop import TrainResult as TrainResult
from nsac.training.loop import train as train
from nsac.training.progress import Progress as Progress
from nsac.training.progress import ProgressBar as ProgressBar
from nsac.training.progress import log_jsonl as log_jsonl
from nsac.training.progress import together as together
from nsac.training.windows import WindowData as WindowData
from nsac.training.windows import typical_change as typical_change
from nsac.training.windows import window_ends as window_ends
