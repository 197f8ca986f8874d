"""Names of the previous place of `nsac.uncertainty.adaptive`, for the forecaster."""

from nsac.uncertainty.adaptive import COVERAGES as LEVELS  # noqa: F401
from nsac.uncertainty.adaptive import LeadTimeConformal as Stream  # noqa: F401
