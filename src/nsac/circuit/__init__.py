"""The connectome: wiring as data, sensory neurons, and the circuit that gates the logits."""

from nsac.circuit.neurons import Backbone as Backbone
from nsac.circuit.neurons import Potentials as Potentials
from nsac.circuit.neurons import Sensory as Sensory
from nsac.circuit.neurons import Synapses as Synapses
from nsac.circuit.neurons import sense as sense
from nsac.circuit.wiring import Wiring as Wiring
from nsac.circuit.wiring import ncp_wiring as ncp_wiring
from nsac.circuit.wiring import sensory_wiring as sensory_wiring
