"""Driving: an expert and its recordings, cloned controllers in closed loop, and what their uncertainty is good for."""

from nsac.driving.errors import DrivingError as DrivingError
from nsac.driving.lap import Lap as Lap
from nsac.driving.lap import drive_lap as drive_lap
from nsac.driving.pilot import Pilot as Pilot
from nsac.driving.pilot import load_pilot as load_pilot
from nsac.driving.recording import RecordConfig as RecordConfig
from nsac.driving.recording import load_recording as load_recording
from nsac.driving.recording import record as record
from nsac.driving.school import train_pilot as train_pilot
from nsac.driving.supervisor import DoubtSupervisor as DoubtSupervisor
from nsac.driving.trials import run_trials as run_trials
from nsac.driving.world import World as World
