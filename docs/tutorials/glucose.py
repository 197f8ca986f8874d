# %% [markdown]
# # Glucose of a new person
#
# Readings of five people, about every 5 minutes, with gaps of minutes to days, in one long CSV: `id, time, gl` (mg/dL). The file does
# not ship: [data sets](../datasets.md) says where it is from and where to put it. We learn from four people and forecast up to two
# hours of the fifth.

# %%
import os
from subprocess import run

import pandas as pd

from nsac import NSACForecaster

path = os.path.join(os.environ["NSAC_DATA"], "glucose", "broll_5_subjects.csv.gz")
frame = pd.read_csv(path, usecols=["id", "time", "gl"], parse_dates=["time"])
people, person = frame[frame["id"] != "Subject 5"], frame[frame["id"] == "Subject 5"]
model = NSACForecaster("2h", "6h", target="gl", time="time", series="id", members=2, random_state=0)
model.fit(people)
print(model.encoding_reason_)
now = pd.Timestamp("2015-03-05 20:00")
past = person[person["time"] <= now]
print(model.predict(past, at=now + pd.to_timedelta([7, 30, 60], unit="min")).to_string(float_format="%.1f"))

# %% [markdown]
# Each reading is an input of its own, with its age; nothing is interpolated, and `at=` may be any time. A gap of the
# sensor needs no care: without the readings of the last 45 minutes the intervals are wider.

# %%
gap = past[past["time"] <= now - pd.Timedelta("45min")]
print(model.predict(gap, at=now + pd.to_timedelta([7, 30, 60], unit="min")).to_string(float_format="%.1f"))

# %% [markdown]
# ## A picture
#
# `plot` draws the latest observations and the forecast.

# %%
model.plot(past).savefig("glucose-forecast.png")

# %% [markdown]
# ![Readings of a new person, and the forecast of the next two hours with its 90 % interval](glucose-forecast.png)
#
# ## Does it hold for a person never seen?
#
# `nsac evaluate` forecasts from many of that person's readings, and compares with simple baselines.

# %%
model.save("model")
person.to_csv("person.csv", index=False)
wide = os.environ | {"COLUMNS": "110"}
print(run(["nsac", "evaluate", "model", "person.csv"], check=True, capture_output=True, text=True, env=wide).stdout)
