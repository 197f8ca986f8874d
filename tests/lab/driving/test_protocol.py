import pytest

from nsac.lab.driving import protocol


@pytest.mark.parametrize(
    "message", ["2", "40", "42", "42[", "42{}", "42[1]", "42[]", "3probe", b"42", "", "42" + "[" * 5000]
)
def test_a_message_without_an_event_is_ignored(message):
    assert protocol.parse(message) is None


def test_an_event_is_parsed_as_it_was_written():
    assert protocol.parse(protocol.event("steer", {"a": 1})) == ("steer", {"a": 1})


def test_the_number_of_an_acknowledgement_is_ignored():
    assert protocol.parse('4212["telemetry"]') == ("telemetry", None)


def test_a_ping_gets_its_pong():
    assert protocol.reply("2probe") == "3probe"


def test_another_message_gets_no_reply():
    assert protocol.reply("40") is None
