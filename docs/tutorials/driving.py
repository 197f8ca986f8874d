# %% [markdown]
# # Driving
#
# A policy learns to drive CarRacing from an expert and reports its uncertainty at every step. This is a try with 600 frames: everything runs,
# and nothing is claimed about how far the policy drives. The real training takes 30,000 frames and five minutes on one core
# ([driving](../driving.md)). The extra `drive` is needed; no display is.

# %%
import json
from subprocess import run


def nsac(*arguments):
    """The output of a command."""
    return run(["nsac", *map(str, arguments)], check=True, capture_output=True, text=True).stdout


nsac("drive", "record", "--frames", 600, "--out", "frames")
nsac("drive", "train", "carracing", "--recording", "frames", "--out", "policy")
lap = json.loads(nsac("drive", "lap", "policy", "--track", 1000, "--json"))
print({name: round(lap[name], 3) for name in ("visited", "seconds", "speed", "aleatoric", "epistemic")})

# %% [markdown]
# `visited` is the share of the track, from 0 to 1; the last two are standard deviations of the steering. A supervisor hands over to the expert
# where it is large: `nsac drive test policy` measures how many crashes that prevents.
#
# ## What does the policy look at?

# %%
nsac("drive", "saliency", "policy", "--out", "driving-saliency.png")

# %% [markdown]
# ![Frames of a lap and where the steering of the small policy depends on them](driving-saliency.png)
#
# For comparison, policies of six methods that were trained on 30,000 frames:
#
# ![Six driving policies on one unseen track: their paths, distances from the centreline, actions and saliency maps, and the fraction of laps they finish in other colours](../figures/closed-loop.png)
#
# All commands, measures and results of six methods are in [driving](../driving.md).
