# %% [markdown]
# # Explanations
#
# What is a prediction made of? A regressor is a stack of networks, a Gaussian process and boosted trees; `nsac.explain` takes it apart.

# %%
from subprocess import run

import pandas as pd

import nsac

run(["nsac", "example", "tables"], check=True, capture_output=True)
train, new = pd.read_csv("diabetes-train.csv"), pd.read_csv("diabetes-new.csv").drop(columns="progression")
y = train.pop("progression")
model = nsac.NSACRegressor(effort="fast", random_state=0).fit(train, y)
explanation = nsac.explain(model, new.head(5))
print(f"mean of row 0: {explanation.prediction.mean[0].item():.1f}")

# %% [markdown]
# ## Attributions
#
# Shapley values: how much each value moves the mean, and both variances, away from the average over training rows. They add up exactly.

# %%
print(explanation.to_frame().head(4).to_string(index=False, float_format="%.2f"))

# %%
explanation.plot(0).savefig("explain-row.png", dpi=110)

# %% [markdown]
# ![Attributions of the first patient to the mean, the aleatoric and the epistemic variance, and the attention of the networks](explain-row.png)
#
# ## How much of it do the circuits carry?
#
# Circuits are in the networks only. On small tables the Gaussian process may carry most of the mean, and then the circuits explain little.

# %%
print({name: share.round(2).tolist() for name, share in explanation.shares.items()})

# %% [markdown]
# ## The prediction without a value
#
# Each value of row 0 is removed in turn. What moves the prediction is what it depends on.

# %%
print(explanation.leave_one_out(0).head(4).to_string(index=False, float_format="%.2f"))

# %% [markdown]
# ## The interactive page
#
# One HTML file without a network connection: change a value, remove it, or clamp a neuron, and the whole model predicts again.

# %%
explanation.save("page.html")

# %% [markdown]
# `nsac explain model/ data.csv --out page.html` writes the same. How attributions are computed, what a trace contains and how to silence neurons
# is in [explanations](../explain.md).
