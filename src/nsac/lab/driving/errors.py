"""Errors of the simulators, of films and of driving policies."""


class DrivingError(RuntimeError):
    """A drive that cannot be made, read or shown. The message names the reason and how to fix it."""


class SimulatorMissing(DrivingError):
    """The simulator is not installed, or does not run here."""

    def __init__(self, reason: object):
        super().__init__(f"CarRacing needs gymnasium and Box2D ({reason}). Install them: `pip install 'nsac[drive]'`.")


class CodecMissing(DrivingError):
    """A picture or film cannot be written."""
