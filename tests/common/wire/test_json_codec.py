"""Messages as JSON and back, and what is refused."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.errors import ProtocolError, VersionError
from common.wire.json_codec import MAX_JSON, decode, encode
from common.wire.messages import (
    ClientMetrics,
    Connected,
    Info,
    TrainDetail,
    TrainEnd,
    Wire,
)
from tests.common.wire.codec_strategies import (
    KINDS,
    damaged,
    json_values,
    messages,
    only_protocol_errors,
)
from tests.some_sums import counted


@given(messages())
def test_any_message_comes_back_as_it_was(message: Wire) -> None:
    assert decode(encode(message), type(message)) == message


@given(messages(), st.data())
def test_a_damaged_message_is_refused_or_a_message(message: Wire, data: st.DataObject) -> None:
    broken = data.draw(damaged(encode(message)))
    only_protocol_errors(lambda: decode(broken, type(message)))


@given(st.binary(max_size=200) | json_values.map(msgspec.json.encode), KINDS)
@example(b"", TrainEnd)
@example(b"null", Connected)
@example(b"\xff\xfe", TrainEnd)
@example(b'{"run":"\xff","reason":""}', TrainEnd)
@example(b'{"run":"\\ud800","reason":""}', TrainEnd)
@example(b"[" * 200_000, TrainEnd)
@example(b'{"run":' * 60_000, TrainEnd)
@example(b'{"protocol":' + b"9" * 5000 + b"}", Connected)
@example(b'{"protocol":2,"run":' + b"[" * 100_000 + b"]" * 100_000 + b"}", TrainDetail)
def test_any_bytes_are_refused_or_a_message(junk: bytes, kind: type[Wire]) -> None:
    only_protocol_errors(lambda: decode(junk, kind))


@pytest.mark.parametrize(
    "field",
    [
        '"loss":NaN',
        '"loss":1e999',
        '"loss":"0"',
        '"round":-1',
        '"round":1.0',
        '"round":true',
        '"odd":1',
        '"state":"asleep"',
        '"client":null',
        '"board":""',
        '"bytes":-1',
    ],
)
def test_a_field_of_the_wrong_kind_is_refused(field: str) -> None:
    good = encode(Info(run="r", round=1, client=2, board="b", state="training")).decode()
    assert decode(good.encode(), Info).round == 1
    with pytest.raises(ProtocolError, match="not a valid Info"):
        decode(f"{good[:-1]},{field}}}".encode(), Info)


def test_sums_without_a_name_a_number_or_a_bound_are_refused() -> None:
    sums = b'{"samples":3,"sums":{"correct":[3],"loss":[3]}}'
    good = b'{"run":"r","round":1,"client":2,"own":{"G":' + sums + b"}}"
    assert decode(good, ClientMetrics).own["G"] == counted(3, 3)
    for bad in (b'"Correct":[3]', b'"correct":[]', b'"correct":[1e31]', b'"correct":[NaN]'):
        with pytest.raises(ProtocolError, match="not a valid ClientMetrics"):
            decode(good.replace(b'"correct":[3]', bad), ClientMetrics)
    with pytest.raises(ProtocolError, match="not a valid ClientMetrics"):
        decode(good.replace(b'"G"', b'"L9"'), ClientMetrics)


@pytest.mark.parametrize("kind", [Connected, TrainDetail])
def test_another_protocol_version_is_named_with_ours_whatever_else_is_in_it(
    kind: type[Wire],
) -> None:
    with pytest.raises(VersionError) as caught:
        decode(b'{"protocol":7,"version":"9.9.1","new_field":[1]}', kind)
    assert "speaks protocol 7 (fedbed 9.9.1), this side speaks 2" in str(caught.value)


def test_a_greeting_without_a_protocol_version_is_refused() -> None:
    with pytest.raises(ProtocolError, match="no protocol version"):
        decode(b'{"version":"9.9.1"}', Connected)


def test_an_experiment_that_nobody_could_read_is_refused_before_it_is_passed_on() -> None:
    detail = '{"protocol":2,"version":"1","run":"r","experiment":{"a":"?"}}'
    assert decode(detail.encode(), TrainDetail).run == "r"
    for experiment in (b'{"a":"\xff"}', b"[" * 50_000 + b"]" * 50_000, b'{"a":', b"NaN"):
        with pytest.raises(ProtocolError):
            decode(detail.encode().replace(b'{"a":"?"}', experiment), TrainDetail)


def test_json_above_the_size_bound_is_not_even_parsed() -> None:
    message = encode(TrainEnd(run="r", reason="done"))
    assert decode(message + b" " * (MAX_JSON - len(message)), TrainEnd).run == "r"
    with pytest.raises(ProtocolError, match=f"expected at most {MAX_JSON}"):
        decode(message + b" " * (MAX_JSON + 1 - len(message)), TrainEnd)
