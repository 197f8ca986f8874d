"""Uncertainty methods: one file per method, one interface, one registry."""

from nsac.methods.base import METHODS as METHODS
from nsac.methods.base import AbstractMethod as AbstractMethod
from nsac.methods.base import AbstractSolved as AbstractSolved
from nsac.methods.base import AbstractTrainable as AbstractTrainable
from nsac.methods.base import fit as fit
from nsac.methods.base import method as method
from nsac.methods.baselines import Extrapolation as Extrapolation
from nsac.methods.baselines import HalfMean as HalfMean
from nsac.methods.baselines import Persistence as Persistence
from nsac.methods.baselines import Seasonal as Seasonal
from nsac.methods.baselines import TrainingMean as TrainingMean
from nsac.methods.de import DeepEnsemble as DeepEnsemble
from nsac.methods.der import DeepEvidential as DeepEvidential
from nsac.methods.gbm import QuantileBoosting as QuantileBoosting
from nsac.methods.gmle import GaussianMLE as GaussianMLE
from nsac.methods.mcd import MCDropout as MCDropout
from nsac.methods.nsac import NSACMethod as NSACMethod
from nsac.methods.problem import AbstractProblem as AbstractProblem
from nsac.methods.problem import EventsProblem as EventsProblem
from nsac.methods.problem import FrameProblem as FrameProblem
from nsac.methods.problem import SeriesProblem as SeriesProblem
from nsac.methods.problem import TableProblem as TableProblem
from nsac.methods.problem import WindowProblem as WindowProblem
from nsac.methods.problem import problem_from_dict as problem_from_dict
from nsac.methods.ridge import Ridge as Ridge
from nsac.methods.sdenet import SDENet as SDENet
