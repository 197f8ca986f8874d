"""Closed-loop driving: an expert and its recordings, cloned policies, and supervisors that use their uncertainty."""

from nsac.lab.driving.expert import record as record
from nsac.lab.driving.lap import Lap as Lap
from nsac.lab.driving.lap import drive_lap as drive_lap
from nsac.lab.driving.policy import DrivingPolicy as DrivingPolicy
from nsac.lab.driving.policy import load_policy as load_policy
from nsac.lab.driving.policy import train_policy as train_policy
from nsac.lab.driving.supervisor import UncertaintySupervisor as UncertaintySupervisor
from nsac.lab.driving.trials import run_trials as run_trials
from nsac.lab.driving.world import DrivingError as DrivingError
from nsac.lab.driving.world import World as World
