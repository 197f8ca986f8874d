"""Mathematics: pure functions from tensors to tensors."""

from nsac.core.keys import masked_softmax as masked_softmax
from nsac.core.keys import select_topk as select_topk
from nsac.core.keys import weigh as weigh
from nsac.core.mixture import decompose as decompose
from nsac.core.mixture import matched_normal as matched_normal
from nsac.core.mixture import mixture_cdf as mixture_cdf
from nsac.core.mixture import mixture_log_prob as mixture_log_prob
from nsac.core.mixture import mixture_quantile as mixture_quantile
from nsac.core.ou import Lipschitz as Lipschitz
from nsac.core.ou import euler_maruyama as euler_maruyama
from nsac.core.ou import frozen_bounds as frozen_bounds
from nsac.core.ou import nac_logit as nac_logit
from nsac.core.ou import ou_moments as ou_moments
from nsac.core.ou import ou_sample as ou_sample
from nsac.core.ou import piecewise_moments as piecewise_moments
from nsac.core.ou import printed_bounds as printed_bounds
