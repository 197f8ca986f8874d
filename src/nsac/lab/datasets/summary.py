"""Summary of a data source, as a table."""

import numpy as np
import pandas as pd
import torch

from nsac._checks import check_choice
from nsac.lab.datasets.bearings import RIGS, bearings, load_bearing, load_raw_bearing, raw_bearings
from nsac.lab.datasets.catalog import catalog
from nsac.lab.datasets.physionet import CHANNELS, STATIC, load_stays
from nsac.lab.datasets.spiral import make_spirals
from nsac.lab.datasets.sporadic import load_brusselator, load_glucose
from nsac.lab.datasets.tables import TABLES, load_table
from nsac.lab.datasets.uci import COLUMNS, load_uci
from nsac.lab.datasets.udacity import load_drive
from nsac.lab.datasets.weather import load_ettm1, load_jena


def summarise(name: str) -> pd.DataFrame:
    """One row per column, run or drive: number of values, missing values, minimum and maximum."""
    check_choice("name", name, tuple(catalog()))
    if name in COLUMNS:
        table = load_uci(name)
        columns = dict(zip(table.features, table.x.T, strict=True)) | {table.target: table.y}
    elif name == "tables":
        columns = {}
        for each in TABLES:
            table = load_table(each)
            columns |= {f"{each} {column}": table.x[column].to_numpy() for column in table.x}
            columns |= {f"{each} {table.target}": table.y}
    elif name == "spiral":
        columns = {"position": make_spirals(generator=torch.Generator().manual_seed(0)).y.numpy()}
    elif name == "ettm1" or name.startswith("jena"):
        frame = load_ettm1() if name == "ettm1" else load_jena(name.removeprefix("jena-"))
        columns = {column: frame[column].to_numpy() for column in frame}
    elif name in RIGS:
        columns = {}
        for bearing in bearings(name):
            run = load_bearing(name, bearing)
            columns |= {f"{bearing} features": run.features, f"{bearing} degradation": run.degradation}
            columns |= {f"{bearing} linear label": run.linear, f"{bearing} remaining minutes": run.remaining}
    elif name == "physionet2012":
        stays = load_stays()
        columns = dict(zip(STATIC, stays.static.T, strict=True))
        columns |= {channel: stays.value[stays.channel == i] for i, channel in enumerate(CHANNELS)}
    elif name in ("glucose", "brusselator"):
        table = load_glucose() if name == "glucose" else load_brusselator()
        columns = {f"channel {i}": table.value[table.channel == i] for i in np.unique(table.channel)}
    elif name == "pronostia-raw":
        columns = {f"{bearing} acceleration": load_raw_bearing(bearing).signal for bearing in raw_bearings()}
    else:
        columns = {}
        for track in ("lake", "mountain"):
            drive = load_drive(track)
            for control in ("steering", "throttle", "brake", "speed", "time", "segment"):
                columns[f"{track} {control}"] = getattr(drive, control)
    return pd.DataFrame([_row(name, values) for name, values in columns.items()])


def _row(name: str, values: np.ndarray) -> dict[str, object]:
    known = values[~pd.isna(values)]
    low, high = (known.min(), known.max()) if known.size else ("", "")
    return {"column": name, "values": values.size, "missing": values.size - known.size, "min": low, "max": high}
