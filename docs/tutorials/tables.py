# %% [markdown]
# # Tables
#
# A regressor predicts the progression of diabetes from ten measurements, with its uncertainty. Then we check whether the uncertainty is
# right, and what happens when the patients change.

# %%
from subprocess import run

import pandas as pd
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure

from nsac import NSACRegressor
from nsac.uncertainty import plot, score_table
from nsac.uncertainty.style import BLUE, ORANGE, STYLE

run(["nsac", "example", "tables"], check=True, capture_output=True)
train, new = pd.read_csv("diabetes-train.csv"), pd.read_csv("diabetes-new.csv")
y, y_new = train.pop("progression"), new.pop("progression")
print(train.describe().loc[["mean", "std"]].round(1).T)

# %% [markdown]
# Nothing has to be scaled or imputed. `effort="fast"` halves the training; leave it out for your own data.

# %%
model = NSACRegressor(effort="fast", random_state=0).fit(train, y)
table = model.predict_frame(new)
print(table.head(3).round(1))

# %% [markdown]
# `aleatoric` and `epistemic` are variances, and `std` is the root of their sum. Here almost all of the uncertainty is noise: patients with the
# same measurements differ. More rows would not help much, another measurement might.
#
# ## Are the intervals right?
#
# 88 patients were left out of `diabetes-train.csv`. About 90 % of them should be in their 90 % intervals. With 88 rows, chance alone
# moves this share by 3 points (one standard error).

# %%
covered = (table["lower_90"] <= y_new) & (y_new <= table["upper_90"])
scores = score_table(model.predict_distribution(new), torch.tensor(y_new.to_numpy(float)))
print(f"covered: {covered.mean():.2f}")
print({name: round(scores[name], 3) for name in ("rmse", "crps", "nll", "calibration_error")})
print(f"RMSE of the training mean: {((y_new - y.mean()) ** 2).mean() ** 0.5:.1f}")

# %%
with rc_context(STYLE):
    figure = Figure((9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    order = table["mean"].argsort().to_numpy()
    position = range(len(order))
    left.vlines(position, table["lower_90"].iloc[order], table["upper_90"].iloc[order], color=BLUE, alpha=0.3, lw=2)
    left.plot(position, table["mean"].iloc[order], color=BLUE, label="mean, 90 % interval")
    left.plot(position, y_new.iloc[order], ".", color=ORANGE, label="observed")
    left.set(xlabel="patient, by predicted mean", ylabel="progression")
    left.legend(loc="upper left")
    plot.reliability(model.predict_distribution(new), torch.tensor(y_new.to_numpy(float)), right)
    figure.savefig("tables-intervals.png")

# %% [markdown]
# ![Left: observed progression of 88 patients within prediction intervals, sorted by the predicted mean. Right: the reliability curve is near the diagonal](tables-intervals.png)
#
# ## What if the patients change?
#
# We raise the body mass index of everyone by 15, which puts many beyond all training rows. `outside_range` names those rows, the epistemic
# variance grows, and the intervals widen. That is a warning, not a guarantee: nothing calibrates intervals outside the training
# range.

# %%
shifted = new.assign(body_mass_index=new["body_mass_index"] + 15)
for name, rows in {"as they are": new, "shifted": shifted}.items():
    p = model.predict_distribution(rows)
    ratio = float((p.epistemic / p.variance).mean())
    outside = model.outside_range(rows).mean()
    print(f"{name}: epistemic share {ratio:.2f}, OOD score {model.ood_score(rows).mean():.2f}, outside {outside:.0%}")

# %% [markdown]
# ## Which columns matter?

# %%
print(model.permutation_importances(new, y_new, random_state=0).nlargest(4, "importance").round(3))

# %% [markdown]
# ## Save it

# %%
model.save("model")

# %% [markdown]
# The folder has numbers and JSON only. `nsac.load("model")` gives bit-identical predictions, `nsac predict model new.csv` uses it in a
# shell, and `nsac export model --to onnx` makes a file that runs without this library. If rows come from several machines or
# patients, read [prognostics with groups](prognostics.md) before you trust an interval.
