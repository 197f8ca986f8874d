"""A client plays the part of the simulator."""

import base64
import json
import threading

import pytest

from nsac.lab.driving import protocol
from nsac.lab.driving.errors import DrivingError
from nsac.lab.driving.live import MAX_UNREADABLE_FRAMES, TelemetryDriver, serve
from support.roads import jpeg, single, untrained  # noqa: F401

ADDRESS = "ws://127.0.0.1:{}/socket.io/?EIO=4&transport=websocket"
IMAGE = base64.b64encode(jpeg()).decode()


class Simulator:
    """The client side of a drive: it receives messages and sends telemetry."""

    def __init__(self, socket):
        self.socket = socket

    def receive(self):
        return self.socket.recv(timeout=20)

    def connect(self):
        return [self.receive() for _ in range(3)]

    def send_frame(self, image, speed="9,5"):
        data = {"steering_angle": "0.0", "throttle": "0.1", "speed": speed, "image": image}
        self.socket.send("42" + json.dumps(["telemetry", data]))
        return protocol.parse(self.receive())


@pytest.fixture
def drive():
    """A simulator connected to a driver in a thread, its reports, its errors, and the thread."""
    client = pytest.importorskip("websockets.sync.client", reason="the simulator needs the extra `drive`")
    reported, ports, failed, ready = [], [], [], threading.Event()
    driver = TelemetryDriver(untrained("nsac", "udacity"), threshold=1e-9, report=reported.append)

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


def test_the_simulator_is_greeted_and_gets_a_first_command(drive):
    opened, connected, first = drive[0].connect()
    assert opened[0] == "0" and {"sid", "pingInterval", "pingTimeout"} <= set(json.loads(opened[1:]))
    assert connected == "40" and protocol.parse(first).name == "steer"


def test_a_ping_gets_its_pong(drive):
    simulator = drive[0]
    simulator.connect()
    simulator.socket.send("2")
    assert simulator.receive() == "3"


def test_a_frame_gets_a_steering_angle(drive):
    simulator = drive[0]
    simulator.connect()
    answer = simulator.send_frame(IMAGE)
    assert answer.name == "steer" and -1 <= float(answer.data["steering_angle"]) <= 1


def test_every_answer_is_reported(drive):
    simulator, reported, _, _ = drive
    simulator.connect()
    simulator.send_frame(IMAGE)
    assert reported[0].speed == 9.5 and reported[0].epistemic >= 0


def test_an_uncertain_policy_drives_at_half_speed(drive):
    simulator, reported, _, _ = drive
    simulator.connect()
    answer = simulator.send_frame(IMAGE)
    assert not reported[0].sure and float(answer.data["throttle"]) == pytest.approx(0.15 * (7.5 - 9.5))


def test_telemetry_without_a_frame_means_that_a_person_drives(drive):
    simulator = drive[0]
    simulator.connect()
    simulator.socket.send('42["telemetry",null]')
    assert protocol.parse(simulator.receive()) == ("manual", {})


@pytest.mark.parametrize("broken", ["", "no base64!", IMAGE[:400], None], ids=["empty", "text", "truncated", "null"])
def test_an_unreadable_frame_keeps_the_steering_without_throttle(drive, broken):
    simulator, reported, _, _ = drive
    simulator.connect()
    steering = simulator.send_frame(IMAGE).data["steering_angle"]
    answer = simulator.send_frame(broken)
    assert answer.data == {"steering_angle": steering, "throttle": "0.000000"} and reported[-1].error


def test_a_readable_frame_ends_a_sequence_of_unreadable_ones(drive):
    simulator = drive[0]
    simulator.connect()
    simulator.send_frame("")
    assert not simulator.send_frame(IMAGE).data["throttle"].startswith("0.000")


def test_ten_unreadable_frames_end_the_drive(drive):
    simulator, _, failed, thread = drive
    simulator.connect()
    for _ in range(MAX_UNREADABLE_FRAMES - 1):
        simulator.send_frame("x")
    simulator.socket.send('42["telemetry",{"image":"x"}]')
    thread.join(10)
    assert len(failed) == 1 and "10 frames in a row" in str(failed[0])


def test_a_port_in_use_is_named(drive):
    port = drive[0].socket.remote_address[1]
    with pytest.raises(DrivingError, match=f"Port {port} of 127.0.0.1 cannot be used"):
        serve(TelemetryDriver(untrained("gmle", "udacity")), port=port)
