"""Training."""

from nsac.training.loop import Progress as Progress
from nsac.training.loop import TrainConfig as TrainConfig
from nsac.training.loop import train as train
