"""Studies: the questions that the paper answers besides its main table, one file each."""

from nsac.lab.studies import cost, freezing, hyperparameters, lengths, regulariser
from nsac.lab.studies.base import Study

_FILES = (regulariser, freezing, cost, hyperparameters, lengths)
STUDIES: dict[str, Study] = {file.STUDY.name: file.STUDY for file in _FILES}
"""Studies by name, in the order of the paper."""
