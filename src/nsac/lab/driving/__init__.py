"""Driving: an expert and its recordings, cloned controllers in closed loop, and what their uncertainty is good for."""

from nsac.lab.driving.errors import DrivingError as DrivingError
from nsac.lab.driving.lap import Lap as Lap
from nsac.lab.driving.lap import drive_lap as drive_lap
from nsac.lab.driving.pilot import Pilot as Pilot
from nsac.lab.driving.pilot import load_pilot as load_pilot
from nsac.lab.driving.recording import RecordConfig as RecordConfig
from nsac.lab.driving.recording import load_recording as load_recording
from nsac.lab.driving.recording import record as record
from nsac.lab.driving.school import train_pilot as train_pilot
from nsac.lab.driving.supervisor import DoubtSupervisor as DoubtSupervisor
from nsac.lab.driving.trials import run_trials as run_trials
from nsac.lab.driving.world import World as World
