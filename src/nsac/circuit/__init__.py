"""The connectome: wiring as data, sensory neurons, and the circuit that gates the logits."""

from nsac.circuit.backbone import Backbone as Backbone
from nsac.circuit.backbone import Potentials as Potentials
from nsac.circuit.sensory import Sensory as Sensory
from nsac.circuit.sensory import Synapses as Synapses
from nsac.circuit.sensory import sense as sense
from nsac.circuit.wiring import Wiring as Wiring
from nsac.circuit.wiring import ncp_wiring as ncp_wiring
from nsac.circuit.wiring import sensory_wiring as sensory_wiring
