"""Study of time and memory over the sequence length, by the number of selected keys: the paper's Figure 8 C."""

from typing import Any

from matplotlib import colormaps, rc_context
from matplotlib.figure import Figure

from nsac.lab.grid.sheet import Sheet
from nsac.lab.studies.base import Found, Outcome, Study
from nsac.lab.studies.cost import SIZES, measure
from nsac.layers import NSAC
from nsac.layers.attention import EXACT_UP_TO
from nsac.uncertainty.style import STYLE


def run(config: dict[str, Any]) -> Outcome:
    """Measure one forward pass without gradients: T tokens, T queries."""
    sizes = {name: config[name] for name in SIZES}
    layer = NSAC(3, 2, **sizes, readout="all", head="paper", seed=config["seed"])
    return Outcome(measure(lambda x: layer(x, num_samples=config["draws"]), 3, config))


def sheets(found: Found) -> list[Sheet]:
    """Seconds and megabytes, one row per length."""
    values = {(s.config["length"], s.config["topk"]): r.metrics for s, r in found}
    lengths = sorted({length for length, _ in values})
    keys = sorted({topk for _, topk in values})
    tables = []
    for metric, unit in (("seconds", "CPU seconds"), ("memory", "megabytes")):
        rows = [(n, *(values.get((n, k), {}).get(metric) for k in keys)) for n in lengths]
        tables.append(Sheet(f"Forward pass, {unit}", ("tokens", *(f"top-{k}" for k in keys)), rows, _NOTE))
    return tables


_NOTE = (
    "One sequence, every token is a query, 16 heads, 5 draws, one thread, no gradients. Memory is the peak of the pass "
    "minus the memory that the process held before. Nothing is extrapolated; long passes are timed once. Above "
    f"{EXACT_UP_TO:,} tokens, keys are selected block by block. The paper prints no times for this figure."
)


@rc_context(STYLE)
def draw(found: Found) -> Figure:
    """Time and memory over the length, one line per K."""
    keys = sorted({setting.config["topk"] for setting, _ in found})
    lengths = sorted({setting.config["length"] for setting, _ in found})
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    titles = {"seconds": "CPU seconds of a forward pass", "memory": "peak memory of a forward pass, MB"}
    for axis, (metric, title) in zip(panels, titles.items(), strict=True):
        for i, k in enumerate(keys):
            points = sorted((s.config["length"], r.metrics[metric]) for s, r in found if s.config["topk"] == k)
            colour = colormaps["viridis_r"](0.15 + 0.8 * i / max(1, len(keys) - 1))
            axis.plot(*zip(*points, strict=True), "o-", ms=4, color=colour, label=f"top-{k}")
        axis.set(title=title, xlabel="tokens", xscale="log", yscale="log")
        axis.grid(color="0.93")
        axis.set_xticks(lengths, [f"{n:,}" for n in lengths])
        axis.minorticks_off()
        axis.yaxis.set_major_formatter("{x:g}")
    panels[0].legend(loc="upper left")
    return figure


_CAPTION = "Forward pass of one sequence in which every token is a query, on one CPU thread; both axes are logarithmic."
STUDY = Study("lengths", "Cost of long sequences", "Figure 8 C", _CAPTION, run, sheets, draw, apart=True)
