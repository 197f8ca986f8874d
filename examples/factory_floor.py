"""Predict with an exported model on a machine with numpy and onnxruntime, and nothing else.

    nsac fit data.csv --target y --out model/
    nsac export model/ --to onnx                      # writes model.onnx; copy it, and this file, to the machine
    python factory_floor.py model.onnx new.csv        # mean, standard deviations and 90 % interval of each row

The noise is an input. By default it is the noise with which the library itself predicts, which the file contains, so
that the predictions are those of the library. `matched_normal` draws other noise, or more of it.
"""

import base64
import csv
import datetime
import io
import json
import sys

import numpy as np
import onnxruntime


class Model:
    """An exported regressor; `self.about` is the description in the file."""

    def __init__(self, path):
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.about = json.loads(self.session.get_modelmeta().custom_metadata_map["nsac"])
        self.outputs = [output.name for output in self.session.get_outputs()]
        self.noise = None
        if "noise" in self.about:
            content = base64.b64decode(self.about["noise"]["data"])
            self.noise = np.frombuffer(content, "<f4").reshape(self.about["noise"]["shape"])

    def predict(self, rows, noise=None):
        """Outputs by name, (rows, targets), of a list of dicts from column to text or number."""
        feed = {}
        for column in self.about["columns"]:
            read = code(column["levels"]) if column["input"] == "c" else number
            if "feature" in column:
                read = date_feature(column["feature"], column["first"])
            feed.setdefault(column["input"], []).append([read(row[column["name"]]) for row in rows])
        feed = {name: np.array(columns, np.int64 if name == "c" else np.float64).T for name, columns in feed.items()}
        feed.setdefault("x", np.zeros((len(rows), 0)))
        if self.noise is not None:
            feed["noise"] = self.noise if noise is None else noise
        return dict(zip(self.outputs, self.session.run(None, feed), strict=True))


def number(text):
    """A number; NaN where the field is empty."""
    return float("nan") if text in ("", None) else float(text)


def date_feature(feature, first):
    """A function from a date, such as 2024-12-31 or 2024-12-31 18:30, to one of its features; NaN where it is empty."""

    def read(text):
        if text in ("", None):
            return float("nan")
        date = datetime.datetime.fromisoformat(str(text))
        if date.tzinfo is not None:
            date = date.astimezone(datetime.UTC).replace(tzinfo=None)
        midnight = datetime.datetime(date.year, date.month, date.day)
        features = {"year": date.year, "month": date.month, "day": date.day, "weekday": date.weekday()}
        features["days"] = (date - datetime.datetime.fromisoformat(first)) / datetime.timedelta(days=1)
        features["hour"] = (date - midnight) / datetime.timedelta(hours=1)
        return float(features[feature])

    return read


def read_rows(path):
    """Rows of a CSV file, as dicts; the most frequent of , ; tab and | in the header is the delimiter.

    If that is a semicolon or a tab, a comma between digits is a decimal comma.
    """
    with open(path, newline="", encoding="utf-8-sig") as file:
        text = file.read().lstrip()
    header, _, below = text.partition("\n")
    if not below.strip():
        raise SystemExit(f"{path} has no rows. It needs a header line with the column names, and at least one row.")
    delimiter = max(",;\t|", key=header.count)
    read = decimal_point if delimiter in ";\t" else str
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    return [{name.strip(): read(value or "") for name, value in row.items() if name} for row in rows]


def decimal_point(text):
    """The text, with a point if it is a number with a decimal comma."""
    digits = text.strip().lstrip("+-").split(",")
    return text.replace(",", ".") if len(digits) == 2 and all(part.isdigit() for part in digits) else text


def code(categories):
    """A function from a category to its code: from 1 on, 0 if it is missing or unknown."""
    codes = {category: i + 1 for i, category in enumerate(categories)}
    return lambda text: codes.get(str(text), 0)


def matched_normal(draws, shape, seed=0):
    """Standard normal noise, (draws, *shape), with mean 0 and variance 1 over draws, uncorrelated in blocks."""
    flat = np.random.default_rng(seed).standard_normal((draws, int(np.prod(shape))))
    flat -= flat.mean(0)
    blocks = np.split(flat, range(draws - 1, flat.shape[1], draws - 1), axis=1)
    for block in blocks:
        basis, triangle = np.linalg.qr(block)
        block[:] = basis * np.sign(np.diag(triangle)) * draws**0.5
    return np.concatenate(blocks, 1).reshape(draws, *shape).astype(np.float32)


def main(model_path, csv_path):
    """Print a table of predictions."""
    model = Model(model_path)
    rows = read_rows(csv_path)
    absent = {column["name"] for column in model.about["columns"]} - set(rows[0])
    if absent:
        raise SystemExit(
            f"{csv_path} has no column {', '.join(sorted(absent))}. Its columns are: {', '.join(rows[0])}."
        )
    out = model.predict(rows)
    print(f"{'target':>12} {'mean':>12} {'aleat. std':>12} {'epist. std':>12} {'lower':>12} {'upper':>12}")
    for i, target in enumerate(model.about["targets"]):
        mean, aleatoric, epistemic, lower, upper = (out[name][:, i] for name in model.outputs)
        for row in zip(mean, aleatoric**0.5, epistemic**0.5, lower, upper, strict=True):
            print(f"{target:>12} " + " ".join(f"{value:12.5g}" for value in row))


if __name__ == "__main__":
    main(*sys.argv[1:])
