# %% [markdown]
# # Irregular series
#
# Weekly CO2 at Mauna Loa since 1958 has missing weeks. We remove a fifth of the others as well, so that the observation times are
# irregular, and forecast half a year.

# %%
from subprocess import run

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from nsac import NSACForecaster
from nsac.uncertainty.style import BLUE, GREY, ORANGE, STYLE

run(["nsac", "example", "series"], check=True, capture_output=True)
frame = pd.read_csv("co2.csv", parse_dates=["date"])
frame = frame[frame["date"] >= "1980"].sample(frac=0.8, random_state=0).sort_values("date").dropna()
past, future = frame[frame["date"] < "1998"], frame[frame["date"] >= "1998"]
gaps = past["date"].diff().dt.days.value_counts().head(4)
print(f"{len(past)} observations; days between them: {gaps.to_dict()}")

# %% [markdown]
# `horizon` and `lookback` are steps of a grid here; durations such as `"26W"` work as well. The model maps the irregular times to weeks,
# and flags tell it which of them are missing. `encoding_reason_` says why it chose the grid and not events.

# %%
model = NSACForecaster(horizon=26, lookback=52, target="co2", time="date", step="7D", members=2, random_state=0)
model.fit(past)
print(model.encoding_reason_)
forecast = model.predict(past)
print(forecast.head(3).to_string(float_format="%.3f"))

# %% [markdown]
# ## At any time
#
# `at=` asks for times between the steps; those of the weeks that were observed later, for instance.

# %%
later = future[future["date"] <= forecast["date"].iloc[-1]]
at = model.predict(past, at=later["date"])
covered = (at["lower_90"].to_numpy() <= later["co2"]) & (later["co2"] <= at["upper_90"].to_numpy())
print(f"{covered.mean():.0%} of {len(later)} later observations are in their 90 % interval")

with rc_context(STYLE):
    figure = Figure((9, 3.2), layout="constrained")
    axes = figure.subplots()
    recent = past.tail(80)
    axes.plot(recent["date"], recent["co2"], ".", color=GREY, label="observed before")
    axes.fill_between(forecast["date"], forecast["lower_90"], forecast["upper_90"], color=BLUE, alpha=0.2, lw=0)
    axes.plot(forecast["date"], forecast["mean"], color=BLUE, label="mean, 90 % interval")
    axes.plot(later["date"], later["co2"], ".", color=ORANGE, label="observed later")
    axes.set(ylabel="CO2, ppm")
    axes.legend(loc="upper left")
    figure.savefig("series-forecast.png")

# %% [markdown]
# ![Observations until the end of 1997, the forecast for half a year with its interval, and the observations that followed](series-forecast.png)
#
# These 20 or so observations are neighbours in time, so they count for much fewer: one half-year says little about coverage. The next
# section evaluates many origins.
#
# ## Is it better than a baseline?
#
# Forecasts from every origin since 1998, beside persistence (the last value) and the value one year before.

# %%
history = model.historical_forecasts(frame, since="1998-01-01")
known = ~history.y.isnan()
y = history.y[known]


def rmse(mean):
    return float((mean[known] - y).square().nanmean().sqrt())


print(f"{len(history.y)} origins, {int(known.sum())} observed values")
print(f"RMSE: model {rmse(history.prediction.mean):.2f}, persistence {rmse(history.persistence):.2f}")
print({f"seasonal naive, {cycle}": round(rmse(mean), 2) for cycle, mean in history.seasonal.items()})
inside = (history.lower <= history.y) & (history.y <= history.upper)
print(f"90 % PI coverage: {inside[known].double().mean():.2f}")

# %% [markdown]
# The intervals are wider than they need be: their margins are from the past, when the models had seen fewer years.
#
# ## New observations arrive
#
# `update` evaluates every forecast that came due, and adapts the margins. Means and variances stay as they are.

# %%
before = (forecast["upper_90"] - forecast["lower_90"]).mean()
model.update(frame)
after = model.predict(past)
print(f"mean width of the intervals: {before:.2f} before, {(after['upper_90'] - after['lower_90']).mean():.2f} after")

# %% [markdown]
# For several targets, each observed at its own times, attributes of a series, and columns that are known in advance, see
# [forecasting](../forecasting.md). On the command line the same is `nsac fit co2.csv --target co2 --time date --horizon 26`.
