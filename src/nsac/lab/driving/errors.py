"""What can be wrong about a drive."""


class DrivingError(RuntimeError):
    """A drive that cannot be made, read or shown. The message says why and what to do."""


class SimulatorMissing(DrivingError):
    """The simulator is not installed, or does not run here."""

    def __init__(self, reason: object):
        super().__init__(f"CarRacing needs gymnasium and Box2D ({reason}). Install them: `pip install 'nsac[drive]'`.")


class CodecMissing(DrivingError):
    """A picture or film cannot be written."""


class RecordingError(DrivingError):
    """A recording that is missing, damaged, or another one than was asked for."""
