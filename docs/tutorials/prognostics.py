# %% [markdown]
# # Prognostics with groups
#
# How many hours has a machine left? Training rows come from machines that ran until they failed; predictions are for machines that were
# never seen. Rows of one machine resemble each other, and intervals that ignore this are too narrow.
#
# The fleet is simulated, so that the truth is known: each machine wears at its own rate, and its sensors have their own offsets. Real
# bearings are in the benchmark (`nsac bench run xjtu pronostia hust`).

# %%
import warnings

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from nsac import NSACRegressor
from nsac.uncertainty.style import BLUE, GREY, ORANGE, STYLE


def fleet(machines, seed, rows=25):
    """Measurements of machines over their lives, and the hours that remain."""
    random = np.random.default_rng(seed)
    tables = []
    for number in range(machines):
        life = random.gamma(20, 25)  # about 500 hours
        age = np.sort(random.uniform(0, life, rows))
        wear = (age / life) ** 2
        vibration = 1 + 3 * wear + random.normal(0, 0.4) + random.normal(0, 0.1, rows)
        temperature = 60 + 8 * wear + random.normal(0, 3) + random.normal(0, 1, rows)
        table = {"machine": f"m{seed}-{number}", "age": age, "vibration": vibration, "temperature": temperature}
        tables.append(pd.DataFrame(table | {"remaining": life - age}))
    frame = pd.concat(tables, ignore_index=True)
    frame.loc[random.random(len(frame)) < 0.1, "temperature"] = np.nan  # a sensor that fails now and then
    return frame


train, new = fleet(24, seed=1), fleet(40, seed=2)
inputs = ["age", "vibration", "temperature"]
print(train.head(3).round(1).to_string())

# %% [markdown]
# ## With groups, and without
#
# `groups=` names the machine of each row. Machines are then left out as a whole when the models are stacked and the margins are computed. It
# takes nine groups or more for 90 % intervals. The remaining life is never negative: `target_range=(0, None)`.

# %%
model = NSACRegressor(effort="fast", target_range=(0, None), random_state=0)
model.fit(train[inputs], train["remaining"], groups=train["machine"])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    naive = NSACRegressor(effort="fast", target_range=(0, None), random_state=0).fit(train[inputs], train["remaining"])
print("Without groups:", str(caught[0].message) if caught else "no warning")

# %%
rows = []
for name, fitted in {"with groups": model, "without": naive}.items():
    table = fitted.predict_frame(new[inputs])
    inside = (table["lower_90"] <= new["remaining"]) & (new["remaining"] <= table["upper_90"])
    by_machine = inside.groupby(new["machine"]).mean()
    error = np.sqrt(((table["mean"] - new["remaining"]) ** 2).mean())
    rows.append([name, error, inside.mean(), (by_machine < 0.5).sum(), (table["upper_90"] - table["lower_90"]).mean()])
columns = ["", "RMSE, hours", "coverage", "machines covered less than half", "width, hours"]
print(pd.DataFrame(rows, columns=columns).round(2).to_string(index=False))

# %% [markdown]
# The coverage is that of 40 machines that neither model has seen. Coverage with groups is an average over machines: some machine may still
# be covered less, and the column of machines counts the worst cases.

# %%
with rc_context(STYLE):
    figure = Figure((9, 3.4), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    for axes, (machine, part) in zip(panels, list(new.groupby("machine"))[:3], strict=True):
        table = model.predict_frame(part[inputs])
        axes.fill_between(part["age"], table["lower_90"], table["upper_90"], color=BLUE, alpha=0.2, lw=0)
        axes.plot(part["age"], table["mean"], color=BLUE, label="mean, 90 % interval")
        axes.plot(part["age"], part["remaining"], color=ORANGE, label="truth")
        axes.axhline(0, color=GREY, lw=0.8)
        axes.set(title=machine, xlabel="age, hours")
    panels[0].set(ylabel="remaining life, hours")
    panels[0].legend(loc="upper right")
    figure.savefig("prognostics-machines.png")

# %% [markdown]
# ![Remaining life of three machines that were never seen: the true line, the predicted mean and the interval, which narrows as vibration grows](prognostics-machines.png)
#
# On the command line the same is `nsac fit fleet.csv --target remaining --group machine --target-range 0 none --out model`.
# The guarantee for new groups, and its limits, are in [uncertainty](../uncertainty.md#rows-of-a-new-group).
