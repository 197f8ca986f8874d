"""Models: encoders, attention, read-out and head."""

from nsac.models.series import SeriesModel as SeriesModel
