"""The page of `nsac explain`: one HTML file with the numbers, the model and a script that runs it."""

import base64
import gzip
import hashlib
import html
import json
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from nsac.explain.circuit import find_network
from nsac.explain.embedded import embed, pack
from nsac.explain.events import EventSubject
from nsac.explain.importance import MIN_ROWS
from nsac.explain.series import AbstractSeriesSubject, WindowSubject
from nsac.explain.subjects import QUANTITIES, TableSubject
from nsac.models import TableEncoder

if TYPE_CHECKING:
    from nsac.explain.explanation import Explanation

SCRIPTS = (
    "network.js", "model.js", "windows.js", "events.js", "draw.js", "inputs.js", "observations.js", "page.js",
)  # fmt: skip
MAX_IMPORTANCE_ROWS = 60  # rows that the global view of a page is computed from
GRID_LEADS = 24  # query times of an irregular series along which the page shows gates and forecasts
SLOT_FEATURES = 2  # features that name a slot: those with the largest weights


def page(explanation: "Explanation") -> str:
    """The HTML text. Nothing is loaded: scripts and styles are inline, and a policy forbids any other."""
    script, css = "".join(asset(name) for name in SCRIPTS), asset("explain.css")
    names = [explanation.outputs[0]] if explanation.subject.kind == "table" else [_target(explanation)]
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(css)}; img-src data:"
    model = explanation.subject.model
    data = page_data(explanation)
    weights = base64.b64decode(data["packed"].pop("data"))
    facts = [f"{type(model).__name__}, {len(explanation.subject.members)} networks", f"{len(explanation.rows)} rows"]
    return Template(asset("explain.html")).substitute(
        policy=policy,
        title=html.escape(f"How {', '.join(names)} is predicted"),
        css=css,
        facts=html.escape(" · ".join(facts)),
        data=_compressed(json.dumps(data, allow_nan=False, separators=(",", ":")).encode()),
        weights=_compressed(weights),
        script=script,
    )


def page_data(explanation: "Explanation") -> dict[str, Any]:
    """All that the script shows, as plain values."""
    subject, p = explanation.subject, explanation.prediction
    facts, packed = embed(subject.model, explanation.coverage)
    data: dict[str, Any] = {"model": facts, "packed": packed, "kind": subject.kind, "coverage": explanation.coverage}
    data |= {"rows": subject.labels, "outputs": subject.outputs, "features": subject.features}
    data |= {"explained": explanation.explained, "target": _target(explanation)}
    data["predictions"] = {name: _rounded(getattr(p, name), 9) for name in (*QUANTITIES, "lower", "upper")}
    data["attributions"] = {name: _rounded(explanation.attributions[name], 5) for name in QUANTITIES}
    data["base"] = {name: _rounded(explanation.base[name], 6) for name in QUANTITIES}
    data["importances"] = _importances(explanation)
    data["texts"] = _texts(explanation)
    if isinstance(subject, TableSubject):
        return data | _table_data(subject)
    if isinstance(subject, EventSubject):
        return data | _event_data(explanation, subject, packed)
    assert isinstance(subject, WindowSubject)
    return data | _series_data(explanation, subject, packed)


def asset(name: str) -> str:
    """A file of the page."""
    return (files("nsac.explain") / "assets" / name).read_text("utf-8")


def _table_data(subject: TableSubject) -> dict[str, Any]:
    model, columns = subject.model, subject.model.columns_
    numbers = columns.numbers(subject.table)
    codes = subject.inputs["c"].tolist() if "c" in subject.inputs else [[] for _ in numbers]
    inputs = [{"values": [_cell(v) for v in row], "codes": c} for row, c in zip(numbers.tolist(), codes, strict=True)]
    fields, place = [], {"x": 0, "c": 0}
    for i, name in enumerate(columns.names):
        if i in columns.categories:
            fields.append({"name": name, "feature": i, "place": place["c"], "options": list(columns.categories[i])})
            place["c"] += 1
            continue
        for each in columns.dates[i].names if i in columns.dates else [""]:
            fields.append({"name": f"{name}: {each}" if each else name, "feature": i, "place": place["x"]})
            place["x"] += 1
    labels = [slot_labels(find_network(member).encoder, subject) for member in model.members_]
    return {"inputs": inputs, "columns": fields, "keyLabels": labels}


def _series_data(explanation: "Explanation", subject: WindowSubject, packed: dict[str, Any]) -> dict[str, Any]:
    fitted = subject.model.preprocessor_
    x = subject.inputs["x"].numpy() * fitted.scale + fitted.offset
    calendar = subject.inputs["calendar"].tolist()
    inputs = [
        {"values": [[_cell(v) for v in channel] for channel in window.T.tolist()], "calendar": calendar[i]}
        for i, window in enumerate(x)
    ]
    scales, tensors = {}, {}
    for quantity in QUANTITIES:  # eight bits are enough for colours; sums by channel are exact
        values = np.zeros((*x.shape, len(explanation.explained)))
        for row, each in enumerate(explanation.observations):
            for observation, value in zip(subject.observations(row), each[quantity], strict=True):
                values[row][observation.place] = value
        scale = np.maximum(np.abs(values).max((1, 2)), 1e-300)
        scales[quantity] = _rounded(scale, 6)
        tensors[f"observations.{quantity}"] = np.rint(127 * values / scale[:, None, None]).astype(np.int8)
    _append(packed, tensors)
    labels = [subject.keys for _ in subject.members]
    return {"inputs": inputs, "channels": subject.channels, "keyLabels": labels, "observationScale": scales}


def _event_data(explanation: "Explanation", subject: EventSubject, packed: dict[str, Any]) -> dict[str, Any]:
    maker, grid = subject.maker, [(i + 1) / GRID_LEADS * subject.maker.horizon for i in range(GRID_LEADS)]
    along = subject.asking_at(grid)
    tensors = {"leads": subject.leads.numpy()}
    if subject.future is not None and along.future is not None:
        tensors |= {"future": subject.future.numpy(), "grid.future": along.future.numpy()}
    if subject.static.shape[1]:
        tensors["static"] = subject.static.numpy()
    tensors = {name: each.astype(np.float64 if name == "leads" else np.float32) for name, each in tensors.items()}
    rows, scales = [], {}
    for x, channel, times in zip(*(subject.inputs[n].tolist() for n in ("x", "channel", "times")), strict=True):
        known = [i for i, value in enumerate(x) if not np.isnan(value)]
        rows.append([[channel[i], _round(times[i], 12), x[i]] for i in known])
    for quantity in QUANTITIES:
        parts, sizes = [], []
        for row, each in enumerate(explanation.observations):
            order = np.argsort([observation.place[0] for observation in subject.observations(row)])
            size = np.maximum(np.abs(each[quantity]).max(0, initial=0), 1e-300)
            parts.append(np.rint(127 * each[quantity][order] / size).astype(np.int8))
            sizes.append(size)
        tensors[f"observations.{quantity}"], scales[quantity] = np.concatenate(parts), _rounded(np.stack(sizes), 6)
    _append(packed, tensors)
    start = np.concatenate([[0], np.cumsum([len(row) for row in rows])[:-1]]).tolist()
    data: dict[str, Any] = {
        "events": rows,
        "channels": subject.channels,
        "queryChannels": subject.query_channel.tolist(),
    }
    data |= {"gridLeads": grid, "lookback": maker.lookback, "unit": {"name": subject.unit, "length": subject.seconds}}
    return data | {"observationScale": scales, "observationStart": start}


def _append(packed: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Further tensors after those that are packed."""
    more, start = pack(tensors), len(base64.b64decode(packed["data"]))
    content = base64.b64decode(packed["data"]) + base64.b64decode(more["data"])
    packed["data"] = base64.b64encode(content).decode()
    packed["index"] |= {name: [kind, offset + start, shape] for name, (kind, offset, shape) in more["index"].items()}


def slot_labels(encoder: Any, subject: TableSubject) -> list[str]:
    """Names of the slots of a network: the features with the largest weights in it."""
    if not isinstance(encoder, TableEncoder) or encoder.tokens != "slots":
        return subject.keys
    weight = encoder.slots.weight.detach().unflatten(0, (len(subject.keys), -1)).square().sum(1).numpy()  # slots inputs
    owner = list(subject.players["x"]) * (2 if encoder.missing else 1)
    for column in subject.players.get("c", ()):
        owner += [column] * encoder.token_dim
    total = np.zeros((len(weight), len(subject.features)))
    for column, size in zip(owner, weight.T, strict=True):
        total[:, column] += size
    names = []
    for i, row in enumerate(total):
        most = [subject.features[j] for j in np.argsort(-row)[:SLOT_FEATURES]]
        names.append(f"{i + 1}: {', '.join(most)}")
    return names


def _importances(explanation: "Explanation") -> list[dict[str, Any]]:
    if len(explanation.rows) < MIN_ROWS:
        return []
    found = explanation.importances(2, max_rows=MAX_IMPORTANCE_ROWS).to_dict("records")
    for line in found:
        if "channel" in line:
            first, last = line["to_step"], line["from_step"]
            line["name"] = f"{line['channel']}, step {first}" + (f" to {last}" if last != first else "")
        else:
            line["name"] = line["feature"]
    return [
        {"name": line["name"]} | {name: _round(line[name], 5) for name in ("importance", "lower", "upper")}
        for line in found
    ]


def _texts(explanation: "Explanation") -> dict[str, str]:
    """Sentences that depend on the kind of data."""
    series = isinstance(explanation.subject, AbstractSeriesSubject)
    shares = ", ".join(f"{name} {100 * share.mean():.0f} %" for name, share in explanation.shares.items())
    texts = {"shares": f"Shares of the mean: {shares}. The circuit below is in the networks."}
    if isinstance(explanation.subject, EventSubject):
        texts["baseline"] = (
            "The baseline is the forecast without any observation; dots show contributions of single ones, or of "
            "blocks of neighbours if rows are many."
        )
        texts["what-if-help"] = "Select an observation above, then change or remove it, or add a new one."
        texts["attention"] = "Keys are observations. Bars are weights, with their standard deviation over the noise."
        texts["time"] = "Below, the query time is dragged from now to the horizon; gates depend on it."
    elif series:
        texts["baseline"] = (
            "The baseline is other windows of the series; cells show single observations, or blocks of neighbours if "
            "rows are many."
        )
        texts["what-if-help"] = "Select an observation above, then change or remove it; a missing one can be added."
        texts["attention"] = "Weight of each channel, with its standard deviation over the noise of the logits."
        texts["time"] = "The encoder reads whole windows: gates depend on the window, not on the query time."
    else:
        texts["baseline"] = "The baseline is the mean prediction of training rows that the model keeps."
        texts["what-if-help"] = "Change or remove values; the whole model predicts again."
        texts["attention"] = (
            "Keys are slots, learned mixtures of all features, named by those with the largest weights. Bars are "
            "weights with their standard deviation over the noise of the logits."
        )
        texts["time"] = "A table has no times: every head has an internal time of its own."
    texts["without-text"] = "The model runs again without each value: change of the mean and of the interval's width."
    texts["global"] = (
        "Mean squared change of the mean if a feature is shuffled among the rows, over the variance of the mean; "
        "whiskers are the range over networks and other models."
        if len(explanation.rows) >= MIN_ROWS
        else f"At least {MIN_ROWS} rows are needed to shuffle values."
    )
    return texts


def _target(explanation: "Explanation") -> str:
    subject = explanation.subject
    model: Any = subject.model
    return model.columns_.target if isinstance(subject, AbstractSeriesSubject) else subject.outputs[0]


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _compressed(content: bytes) -> str:
    """As text that is safe within a script element; the same content always makes the same text."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()


def _rounded(values: np.ndarray, digits: int) -> Any:
    """Nested lists of numbers with so many significant digits."""
    if isinstance(values, np.ndarray) and values.ndim:
        return [_rounded(each, digits) for each in values]
    return _round(float(values), digits)


def _round(value: float, digits: int) -> float | None:
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None


def _cell(value: float) -> float | None:
    return None if np.isnan(value) else value
