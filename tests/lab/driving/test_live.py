"""A client that plays the simulator's part."""

import base64
import json
import threading

import pytest

from nsac.lab.driving import protocol
from nsac.lab.driving.errors import DrivingError
from nsac.lab.driving.live import BLIND, RoadDriver, serve
from support.roads import jpeg, single, untrained  # noqa: F401

ADDRESS = "ws://127.0.0.1:{}/socket.io/?EIO=4&transport=websocket"


class Simulator:
    """What the simulator does: waits to be connected, pings, tells what it sees, and obeys."""

    def __init__(self, socket):
        self.socket = socket

    def hear(self):
        return self.socket.recv(timeout=20)

    def tell(self, image, speed="9,5"):
        data = {"steering_angle": "0.0", "throttle": "0.1", "speed": speed, "image": image}
        self.socket.send("42" + json.dumps(["telemetry", data]))
        return protocol.parse(self.hear())


@pytest.fixture
def road():
    """A driver at work in a thread, a simulator that is connected, and what was reported."""
    client = pytest.importorskip("websockets.sync.client", reason="the simulator needs the extra `drive`")
    reported, ports, failed, ready = [], [], [], threading.Event()
    driver = RoadDriver(untrained("nsac", "udacity"), threshold=1e-9, report=reported.append)

    def run():
        try:
            serve(driver, port=0, ready=lambda port: (ports.append(port), ready.set()))
        except DrivingError as err:
            failed.append(err)

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait(10)
    with client.connect(ADDRESS.format(ports[0]), compression=None) as socket:
        yield Simulator(socket), reported, failed, thread
    thread.join(10)
    assert not thread.is_alive()


IMAGE = base64.b64encode(jpeg()).decode()


def test_the_simulator_is_greeted_steered_and_heard(road):
    simulator, reported, failed, _ = road
    opened, connected, first = (simulator.hear() for _ in range(3))
    assert opened[0] == "0" and {"sid", "pingInterval", "pingTimeout"} <= set(json.loads(opened[1:]))
    assert connected == "40" and protocol.parse(first).name == "steer"
    simulator.socket.send("2")
    assert simulator.hear() == "3"
    answer = simulator.tell(IMAGE)
    assert answer.name == "steer" and -1 <= float(answer.data["steering_angle"]) <= 1
    assert reported[0].speed == 9.5 and reported[0].epistemic >= 0 and not reported[0].sure
    assert float(answer.data["throttle"]) == pytest.approx(0.15 * (7.5 - 9.5))  # not sure: half the speed
    simulator.socket.send('42["telemetry",null]')
    assert protocol.parse(simulator.hear()) == ("manual", {})
    assert not failed


def test_a_broken_picture_keeps_the_wheel_and_many_end_the_drive(road):
    simulator, reported, failed, thread = road
    for _ in range(3):
        simulator.hear()
    wheel = simulator.tell(IMAGE).data["steering_angle"]
    for broken in ("", "no base64!", IMAGE[:400], None):
        answer = simulator.tell(broken)
        assert answer.data == {"steering_angle": wheel, "throttle": "0.000000"} and reported[-1].error
    assert not simulator.tell(IMAGE).data["throttle"].startswith("0.000")  # it sees again
    for _ in range(BLIND - 1):
        simulator.tell("x")
    simulator.socket.send('42["telemetry",{"image":"x"}]')
    thread.join(10)
    assert len(failed) == 1 and "10 frames in a row" in str(failed[0])


def test_a_taken_port_is_named(road):
    simulator = road[0]
    port = simulator.socket.remote_address[1]
    with pytest.raises(DrivingError, match=f"Port {port} of 127.0.0.1 cannot be used"):
        serve(RoadDriver(untrained("gmle", "udacity")), port=port)


@pytest.mark.parametrize(
    "message", ["2", "40", "42", "42[", "42{}", "42[1]", "42[]", "3probe", b"42", "", "42" + "[" * 5000]
)
def test_what_is_no_event_is_passed_over(message):
    assert protocol.parse(message) is None


def test_events_come_back_as_they_were():
    assert protocol.parse(protocol.event("steer", {"a": 1})) == ("steer", {"a": 1})
    assert protocol.parse('4212["telemetry"]') == ("telemetry", None)
    assert protocol.reply("2probe") == "3probe" and protocol.reply("40") is None
