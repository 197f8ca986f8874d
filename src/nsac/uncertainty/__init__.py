"""Predictions as distributions, and how good they are."""

from nsac.uncertainty.prediction import Prediction as Prediction
from nsac.uncertainty.scores import coverage as coverage
from nsac.uncertainty.scores import crps as crps
from nsac.uncertainty.scores import mse as mse
from nsac.uncertainty.scores import nll as nll
from nsac.uncertainty.surrogate import Adversarial as Adversarial
from nsac.uncertainty.surrogate import FeatureShuffle as FeatureShuffle
from nsac.uncertainty.surrogate import GaussianNoise as GaussianNoise
from nsac.uncertainty.surrogate import make_surrogate as make_surrogate
