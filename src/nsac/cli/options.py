"""Options and arguments that the commands for files and models share."""

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[Path, typer.Argument(help="A CSV, CSV.gz or Parquet file with a header.", show_default=False)]
Model = Annotated[Path, typer.Argument(help="A folder that `nsac fit` wrote.", show_default=False)]
Coverage = Annotated[float, typer.Option(help="Nominal coverage of the prediction interval.")]
Coverages = Annotated[
    list[float], typer.Option("--coverage", help="Nominal coverage of the prediction interval; repeat for several.")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show the traceback of an error.")]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of a CSV file, for instance latin-1; UTF-8 by default.", show_default=False)
]
TimeFormat = Annotated[
    str | None, typer.Option(help="Format of the times, for instance '%d.%m.%Y %H:%M'.", show_default=False)
]
DayFirst = Annotated[
    bool | None,
    typer.Option("--dayfirst/--no-dayfirst", help="Whether 01/02/1990 is in February.", show_default=False),
]
Targets = Annotated[list[str] | None, typer.Option("--target", help="Column to predict; repeat for several.")]
Quantiles = Annotated[
    list[str] | None,
    typer.Option("--quantiles", help="Quantile levels, comma-separated: 0.1,0.5,0.9.", show_default=False),
]
Horizon = Annotated[
    str | None,
    typer.Option(help="Forecaster: steps to predict, or a duration such as 24h.", show_default=False),
]
Lookback = Annotated[
    str | None, typer.Option(help="Forecaster: past steps that are input, or a duration.", show_default=False)
]
Series = Annotated[str | None, typer.Option(help="Forecaster: column that identifies the series.", show_default=False)]
Static = Annotated[
    list[str] | None, typer.Option(help="Forecaster: column of attributes of a series; repeat for several.")
]
KnownFuture = Annotated[
    list[str] | None, typer.Option(help="Forecaster: column that is known in advance; repeat for several.")
]
TimeEncoding = Annotated[
    str | None,
    typer.Option(help="Forecaster: auto, events (continuous time) or grid (regular steps).", show_default=False),
]
Method = Annotated[str, typer.Option(help="Uncertainty method: nsac, de, gmle, mcd, ...")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed; equal seeds give equal models.")]
Steps = Annotated[int | None, typer.Option(min=1, help="Training steps per member, for a quick test.")]
