"""Regularly and nearly regularly sampled series: the transformer ETTm1 and the weather station in Jena."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from nsac._checks import check_choice
from nsac.lab.datasets.store import expect_header, expect_rows, locate, read_text, reading

ETTM1_COLUMNS = ["date", "HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"]

JENA_COLUMNS = [
    "p (mbar)", "T (degC)", "Tpot (K)", "Tdew (degC)", "rh (%)", "VPmax (mbar)", "VPact (mbar)", "VPdef (mbar)",
    "sh (g/kg)", "H2OC (mmol/mol)", "rho (g/m**3)", "wv (m/s)", "max. wv (m/s)", "wd (deg)",
]  # fmt: skip
"""The 14 variables that both series of the station have."""

_JENA_2020 = ["rain (mm)", "raining (s)", "SWDR", "PAR", "max. PAR", "Tlog (degC)", "OT"]

MISSING = -9999.0
"""Value that the station writes for a missing value."""


def load_ettm1() -> pd.DataFrame:
    """69,680 rows every 15 minutes: `date`, six loads, oil temperature `OT`."""
    path = locate("ettm1/ETTm1.csv.gz")
    frame = _csv(path, read_text(path))
    expect_header(path, list(frame.columns), ETTM1_COLUMNS)
    expect_rows(path, len(frame), 69680)
    return frame.assign(date=_dates(path, pd.Series(frame["date"]), "%Y-%m-%d %H:%M:%S"))


def load_jena(period: str = "2020") -> pd.DataFrame:
    """The station's series of `"2020"` (21 variables) or `"2009-2016"` (14), in the file's order.

    Times are kept as they are: in 2020 one is repeated and ten are missing, so steps are irregular. -9999 becomes NaN.
    Units that were damaged at the source are left out of the column names.
    """
    check_choice("period", period, ("2020", "2009-2016"))
    if period == "2020":
        path = locate("jena/jena_2020.csv.gz")
        frame = _csv(path, read_text(path))
        frame.columns = [name.split(" (")[0] if "�" in name else name for name in frame.columns]
        expect_header(path, list(frame.columns), ["date", *JENA_COLUMNS, *_JENA_2020])
        rows, date_format = 52696, "%Y-%m-%d %H:%M:%S"
    else:
        path = locate("jena/jena_climate_2009_2016.csv.zip")
        frame = _csv(path, _member(path, "jena_climate_2009_2016.csv"))
        expect_header(path, list(frame.columns), ["Date Time", *JENA_COLUMNS])
        frame = frame.rename(columns={"Date Time": "date"})
        rows, date_format = 420551, "%d.%m.%Y %H:%M:%S"
    expect_rows(path, len(frame), rows)
    numbers = frame.drop(columns="date")
    return pd.concat([_dates(path, pd.Series(frame["date"]), date_format), numbers.mask(numbers == MISSING)], axis=1)


def segments(dates: pd.Series, step: pd.Timedelta) -> np.ndarray:
    """Number of the regularly sampled segment of each row; a segment ends wherever the step differs from `step`."""
    return (dates.diff().iloc[1:] != step).cumsum().reindex(dates.index, fill_value=0).to_numpy()


def _csv(path: Path, text: str) -> pd.DataFrame:
    with reading(path, "a table of numbers"):
        frame = pd.read_csv(io.StringIO(text))
        return frame.astype({name: float for name in frame.columns[1:]})


def _dates(path: Path, text: pd.Series, date_format: str) -> pd.Series:
    with reading(path, "a table with readable dates"):
        return pd.to_datetime(text, format=date_format)


def _member(path: Path, name: str) -> str:
    with reading(path, f"a whole zip archive with {name}"), zipfile.ZipFile(path) as archive:
        return archive.read(name).decode("utf-8")
