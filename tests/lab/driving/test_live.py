"""A client plays the part of the simulator."""

import base64
import json
import threading

import numpy as np
import pytest

from nsac.lab.driving.live import (
    MAX_MESSAGE_BYTES,
    MAX_UNREADABLE_FRAMES,
    TelemetryDriver,
    parse_event,
    serve,
    write_event,
)
from nsac.lab.driving.policy import Decision
from nsac.lab.driving.world import DrivingError
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
        return parse_event(self.receive())


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
    assert connected == "40" and parse_event(first)[0] == "steer"


def test_a_ping_gets_its_pong(drive):
    simulator = drive[0]
    simulator.connect()
    simulator.socket.send("2")
    assert simulator.receive() == "3"


def test_a_frame_gets_a_steering_angle(drive):
    simulator = drive[0]
    simulator.connect()
    name, data = simulator.send_frame(IMAGE)
    assert name == "steer" and -1 <= float(data["steering_angle"]) <= 1


def test_every_answer_is_reported(drive):
    simulator, reported, _, _ = drive
    simulator.connect()
    simulator.send_frame(IMAGE)
    assert reported[0].speed == 9.5 and reported[0].epistemic >= 0


def test_an_uncertain_policy_drives_at_half_speed(drive):
    simulator, reported, _, _ = drive
    simulator.connect()
    _, data = simulator.send_frame(IMAGE)
    assert not reported[0].sure and float(data["throttle"]) == pytest.approx(0.15 * (7.5 - 9.5))


def test_telemetry_without_a_frame_means_that_a_person_drives(drive):
    simulator = drive[0]
    simulator.connect()
    simulator.socket.send('42["telemetry",null]')
    assert parse_event(simulator.receive()) == ("manual", {})


@pytest.mark.parametrize("broken", ["", "no base64!", IMAGE[:400], None], ids=["empty", "text", "truncated", "null"])
def test_an_unreadable_frame_keeps_the_steering_without_throttle(drive, broken):
    simulator, reported, _, _ = drive
    simulator.connect()
    steering = simulator.send_frame(IMAGE)[1]["steering_angle"]
    _, data = simulator.send_frame(broken)
    assert data == {"steering_angle": steering, "throttle": "0.000000"} and reported[-1].error


def test_a_readable_frame_ends_a_sequence_of_unreadable_ones(drive):
    simulator = drive[0]
    simulator.connect()
    simulator.send_frame("")
    assert not simulator.send_frame(IMAGE)[1]["throttle"].startswith("0.000")


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


@pytest.mark.parametrize(
    "message", ["2", "40", "42", "42[", "42{}", "42[1]", "42[]", "3probe", b"42", "", "42" + "[" * 5000]
)
def test_a_message_without_an_event_is_ignored(message):
    assert parse_event(message) is None


def test_an_event_is_parsed_as_it_was_written():
    assert parse_event(write_event("steer", {"a": 1})) == ("steer", {"a": 1})


def test_the_number_of_an_acknowledgement_is_ignored():
    assert parse_event('4212["telemetry"]') == ("telemetry", None)


def test_a_ping_with_content_gets_a_pong_with_the_same_content():
    assert TelemetryDriver(untrained("gmle", "udacity")).answer("2probe") == "3probe"


def test_a_message_without_an_event_gets_no_answer():
    assert TelemetryDriver(untrained("gmle", "udacity")).answer("40") is None


@pytest.mark.parametrize("speed", ["fast", "", "nan", "inf", "-inf", "1e999", "-3", None, [1]])
def test_there_is_no_throttle_at_an_unreadable_speed(drive, speed):
    simulator, reported, _, _ = drive
    simulator.connect()
    _, data = simulator.send_frame(IMAGE, speed)
    assert data["throttle"] == "0.000000" and reported[0].speed is None and "`speed`" in reported[0].error


def test_there_is_no_throttle_without_a_speed():
    answer = TelemetryDriver(untrained("gmle", "udacity")).answer(write_event("telemetry", {"image": IMAGE}))
    assert parse_event(answer)[1]["throttle"] == "0.000000"


def test_an_unreadable_speed_does_not_stop_the_steering():
    driver = TelemetryDriver(untrained("gmle", "udacity"))
    steered = [driver.decide({"image": IMAGE, "speed": speed}).steering for speed in ("nan", "9")]
    assert steered[0] == steered[1] != 0


def test_the_report_of_an_unreadable_speed_is_json():
    control = TelemetryDriver(untrained("gmle", "udacity")).decide({"image": IMAGE, "speed": "nan"})
    assert json.loads(json.dumps(control.to_dict(), allow_nan=False))["speed"] is None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_policy_without_a_finite_steering_goes_straight_without_throttle(monkeypatch, value):
    driver = TelemetryDriver(untrained("gmle", "udacity"))
    driver.decide({"image": IMAGE, "speed": "9"})
    monkeypatch.setattr(driver.policy, "decide", lambda frames: [Decision(np.array([value]), *np.full((2, 1), np.nan))])
    control = driver.decide({"image": IMAGE, "speed": "9"})
    assert (control.steering, control.throttle, control.sure) == (0.0, 0.0, False)
    assert "steering of the policy must be finite" in control.error and json.dumps(control.to_dict(), allow_nan=False)
    assert driver.decide({"image": "", "speed": "9"}).steering == 0.0  # what an unreadable frame keeps


def test_a_second_client_is_refused_and_the_first_drives_on(drive):
    client = pytest.importorskip("websockets.sync.client")
    exceptions = pytest.importorskip("websockets.exceptions")
    simulator = drive[0]
    simulator.connect()
    with client.connect(ADDRESS.format(simulator.socket.remote_address[1]), compression=None) as second:
        with pytest.raises(exceptions.ConnectionClosed, match="another simulator is connected"):
            second.recv(timeout=20)
    assert simulator.send_frame(IMAGE)[0] == "steer"


def test_a_web_page_is_refused(drive):
    client = pytest.importorskip("websockets.sync.client")
    exceptions = pytest.importorskip("websockets.exceptions")
    address = ADDRESS.format(drive[0].socket.remote_address[1])
    with pytest.raises(exceptions.InvalidStatus, match="403"):
        client.connect(address, origin="http://127.0.0.1", compression=None)


def test_a_message_that_is_too_large_ends_the_drive_with_an_error(drive):
    simulator, _, failed, thread = drive
    simulator.connect()
    simulator.socket.send("x" * (MAX_MESSAGE_BYTES + 1))
    thread.join(10)
    assert "at most 1048576 bytes" in str(failed[0])
