"""Regularly and nearly regularly sampled series: the transformer ETTm1 and the weather station in Jena."""

import numpy as np
import pandas as pd

from nsac._checks import check_choice
from nsac.lab.datasets.store import locate, read_table, reading

ETTM1_COLUMNS = ["date", "HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"]

JENA_COLUMNS = [
    "p (mbar)", "T (degC)", "Tpot (K)", "Tdew (degC)", "rh (%)", "VPmax (mbar)", "VPact (mbar)", "VPdef (mbar)",
    "sh (g/kg)", "H2OC (mmol/mol)", "rho (g/m**3)", "wv (m/s)", "max. wv (m/s)", "wd (deg)",
]  # fmt: skip
"""The 14 variables that both series of the station have."""

_JENA_2020 = ["rain (mm)", "raining (s)", "SWDR", "PAR", "max. PAR", "Tlog (degC)", "OT"]
_JENA_ROWS = {"2020": 52696, "2009-2016": 420551}

MISSING = -9999.0
"""Value that the station writes for a missing value."""


def load_ettm1() -> pd.DataFrame:
    """69,680 rows every 15 minutes: `date`, six loads, oil temperature `OT`."""
    return _read_series("ettm1/ETTm1.csv.gz", ETTM1_COLUMNS, 69680, "%Y-%m-%d %H:%M:%S")


def load_jena(period: str = "2020") -> pd.DataFrame:
    """The station's series of `"2020"` (21 variables) or `"2009-2016"` (14), in the file's order.

    Times are kept as they are: in 2020 one is repeated and ten are missing, so steps are irregular. -9999 becomes NaN.
    Units that were damaged at the source are left out of the column names.
    """
    check_choice("period", period, tuple(_JENA_ROWS))
    if period == "2020":
        file, date_format = "jena/jena_2020.csv.gz", "%Y-%m-%d %H:%M:%S"
        columns = ["date", *JENA_COLUMNS, *_JENA_2020]
    else:
        file, date_format = "jena/jena_climate_2009_2016.csv.zip", "%d.%m.%Y %H:%M:%S"
        columns = ["Date Time", *JENA_COLUMNS]
    frame = _read_series(file, columns, _JENA_ROWS[period], date_format)
    return frame.mask(frame == MISSING)


def segments(dates: pd.Series, step: pd.Timedelta) -> np.ndarray:
    """Number of the regularly sampled segment of each row; a segment ends wherever the step differs from `step`."""
    return (dates.diff().iloc[1:] != step).cumsum().reindex(dates.index, fill_value=0).to_numpy()


def _read_series(file: str, columns: list[str], rows: int, date_format: str) -> pd.DataFrame:
    path = locate(file)
    frame = read_table(path, columns, rows)
    with reading(path, "a table of numbers with readable dates"):
        dates = pd.to_datetime(frame[columns[0]], format=date_format).rename("date")
        return pd.concat([dates, frame[columns[1:]].astype(float)], axis=1)
