"""Reading JSON as a stream: whatever the file and however it is cut, what is good in it is read."""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblescope.trace import json_stream
from bubblescope.trace.json_stream import Damage, DocumentStart, Event, EventsStart, Field, Item, read_json
from bubblescope.trace.json_window import Window
from bubblescope.trace.source import Source
from tests.trace.files import kernel


def items(content: bytes, block: int = 1 << 20, chunk: int = 1 << 16) -> tuple[list[Item], Damage]:
    """What is read of a file of that content."""
    damage = Damage()
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        with Source(Path(file.name)) as source:
            return list(read_json(Window(source, chunk), damage, block)), damage


def events(found: list[Item]) -> list[Event]:
    return [event for item in found if isinstance(item, list) for event in item]


def names(found: list[Item]) -> list[Any]:
    return [event.name for event in events(found)]


def fields(found: list[Item]) -> dict[str, bytes | None]:
    return {item.key: item.value for item in found if isinstance(item, Field)}


# A trace with everything that makes it hard to see where an event ends.
TRICKY = {
    "first": {"a": [1, {"b": "}, {"}], "c": '"}]\\'},
    "traceEvents": [
        kernel(1, 2, "plain"),
        kernel(3, 4, "lambda()#1}, {x"),
        kernel(5, 6, 'quote " and \\ and "}, {"'),
        kernel(7, 8, "nested", list=[{"ph": "X"}, {"deep": [{}, {"x": "}]"}]}]),
        kernel(9, 10, "ünïcode ☃", text="}],"),
        kernel(11, 12, "last"),
    ],
    "last": [{"x": 1}, {"y": [2]}],
}
TRICKY_NAMES = [event["name"] for event in TRICKY["traceEvents"]]  # type: ignore[index]
WRITTEN = {
    "compact": json.dumps(TRICKY, separators=(",", ":")).encode(),
    "indented": json.dumps(TRICKY, indent=2, ensure_ascii=False).encode(),
    "a bare list": json.dumps(TRICKY["traceEvents"], ensure_ascii=False).encode(),
}


@pytest.mark.parametrize("content", WRITTEN.values(), ids=WRITTEN.keys())
@given(block=st.integers(1, 600), chunk=st.integers(1, 600))
def test_block_sizes_make_no_difference(content: bytes, block: int, chunk: int) -> None:
    found, damage = items(content, block, chunk)
    assert names(found) == TRICKY_NAMES
    assert damage == Damage()


@pytest.mark.parametrize("content", WRITTEN.values(), ids=WRITTEN.keys())
def test_cut_anywhere_a_prefix_is_read(content: bytes) -> None:
    for end in range(len(content)):
        found, damage = items(content[:end])
        read = names(found)
        assert read == TRICKY_NAMES[: len(read)]
        assert damage.broken == 0
        whole = content[:end].count(b'"dur"') - 1  # of the event that is cut all may be missing
        assert len(read) >= whole
        inside_list = content.startswith(b"[") and content[:end].rstrip(b" \n,").endswith((b"}", b"["))
        assert damage.cut is not None or inside_list or not end


def test_cut_gzip_gives_its_prefix() -> None:
    many = [kernel(i, 1, f"kernel {i}") for i in range(2000)]
    packed = gzip.compress(json.dumps({"traceEvents": many}).encode())
    found, damage = items(packed[: len(packed) // 2])
    read = names(found)
    assert read == [f"kernel {i}" for i in range(len(read))]
    assert 500 < len(read) < 2000
    assert damage.cut is not None and damage.cut[1] == "the gzip stream is cut off"


@given(data=st.data())
def test_flipped_bytes_never_crash_and_cost_little(data: st.DataObject) -> None:
    many = json.dumps({"traceEvents": [kernel(i, 1, f"kernel {i}", grid=[1, {"x": i}]) for i in range(40)]})
    content = bytearray(many.encode())
    places = data.draw(st.lists(st.integers(20, len(content) - 3), max_size=3))
    for place in places:
        content[place] = data.draw(st.integers(0, 255))
    found, _ = items(bytes(content), block=data.draw(st.sampled_from([100, 1000, 1 << 20])))
    intact = {f"kernel {i}" for i in range(40)} & set(names(found))
    assert len(intact) >= 40 - 4 * len(places) or any(content[p] in b'"\\[]{}' for p in places)


@given(st.binary(max_size=300))
def test_garbage_never_crashes(garbage: bytes) -> None:
    items(garbage)
    items(b"[" + garbage)
    items(b'{"traceEvents":[' + garbage)
    items(gzip.compress(garbage)[:-1])


@given(st.text(alphabet='[]{}",:\\ \n0aetruflsn', max_size=60))
def test_almost_json_never_crashes(text: str) -> None:
    items(text.encode(), block=8, chunk=4)
    items(('{"traceEvents":[{"ph":"X"},' + text).encode(), block=8, chunk=4)


def test_fields_before_and_after_the_events_are_read() -> None:
    found, _ = items(WRITTEN["compact"])
    read = {key: json.loads(value or b"") for key, value in fields(found).items()}
    assert read == {key: value for key, value in TRICKY.items() if key != "traceEvents"}


def test_documents_one_after_another_are_told_apart() -> None:
    one = json.dumps({"rank": 0, "traceEvents": [kernel(1, 1, "a")]})
    two = json.dumps({"rank": 1, "traceEvents": [kernel(2, 1, "b")]})
    three = json.dumps([kernel(3, 1, "c")])
    found, damage = items(f"{one}\n{two}{three}".encode())
    kinds = [type(item) for item in found]
    assert kinds.count(DocumentStart) == kinds.count(EventsStart) == 3
    assert names(found) == ["a", "b", "c"]
    assert damage == Damage()


def test_a_thousand_small_documents_are_read_in_no_time_and_more_are_refused() -> None:
    one = json.dumps({"traceEvents": [kernel(1, 1)]})
    found, damage = items("\n".join([one] * 1200).encode())
    assert len(events(found)) == 1000
    assert damage.cut == (1000 * (len(one) + 1), "more than 1000 JSON documents in one file")


@pytest.mark.parametrize(
    "broken",
    [
        '{"ph":"X","name":"no closing quote,"ts":1}',
        '{"ph":"X","name":"no comma" "ts":1}',
        '{"ph":"X","args":{"a":[1,2}}',
        '{"ph":"X","ts":1,}',
        '{"ph":"X","ts":01}',
        '{"ph":"X","ts":tru}',
        '{"ph":"X","args":{"list":[{"a":1},{"b":oops},{"c":3}]}}',
        '{"ph":["X"],"name":"a list as phase"}',
        '"a text"',
        "[1]",
        "null",
        "7",
    ],
)
def test_a_broken_event_costs_that_event(broken: str) -> None:
    before = json.dumps(kernel(1, 1, "before"))
    after = ",".join(json.dumps(kernel(i, 1, f"after {i}")) for i in range(5))
    content = f'{{"traceEvents":[{before},{broken},{after}],"last":1}}'
    found, damage = items(content.encode())
    assert names(found) == ["before", *(f"after {i}" for i in range(5))]
    assert (damage.broken, damage.broken_at) == (1, content.index(f",{broken},") + 1)
    assert fields(found) == {"last": b"1"}


def test_a_broken_last_event_leaves_what_follows_the_list() -> None:
    found, damage = items(b'{"traceEvents":[{"ph":"X","name":"a"},{"ph":oops}],"last":[{"x":1},{"y":2}]}')
    assert names(found) == ["a"]
    assert damage.broken == 1
    assert fields(found) == {"last": b'[{"x":1},{"y":2}]'}


def test_a_broken_field_before_the_events_loses_no_event() -> None:
    content = json.dumps({"good": 1, "bad": 2, "traceEvents": [kernel(1, 1)]}).replace("2,", "]2 x,")
    found, damage = items(content.encode())
    assert len(events(found)) == 1
    assert damage.field == content.index(" x,") - 1 or damage.field is not None
    assert fields(found)["good"] == b"1"


def test_numbers_json_does_not_have_are_missing_and_counted() -> None:
    text = (
        '[{"ph":"X","name":"inf and nan, nan: -inf","ts":1,"dur":NaN,'
        '"args":{"a":inf,"b":-inf,"c":[nan, -Infinity],"d":"inf"}}]'
    )
    found, damage = items(text.encode())
    (event,) = events(found)
    assert event.name == "inf and nan, nan: -inf"
    assert bytes(event.dur) == b"null"
    assert json.loads(bytes(event.args)) == {"a": None, "b": None, "c": [None, None], "d": "inf"}
    assert damage == Damage(json_stream.Repairs(numbers=5))


def test_text_that_is_no_utf8_is_replaced_and_counted() -> None:
    found, damage = items(b'[{"ph":"X","name":"a\xff\xfeb"},{"ph":"X","name":"sur\\ud800rogate"}]')
    assert names(found) == ["a\ufffd\ufffdb", "sur\ufffdrogate"]
    assert damage == Damage(json_stream.Repairs(text=3))


def test_raw_control_characters_are_kept() -> None:
    found, damage = items(b'[{"ph":"X","name":"tab\there, bell\x07, line\nend"}]')
    assert names(found) == ["tab\there, bell\x07, line\nend"]
    assert damage == Damage()


def test_a_byte_order_mark_and_stray_commas_do_not_disturb() -> None:
    found, damage = items(b'\xef\xbb\xbf[,{"ph":"X","name":"a"},,{"ph":"X","name":"b"},]')
    assert names(found) == ["a", "b"]
    assert damage == Damage()


def test_what_follows_a_document_and_is_no_json_is_reported() -> None:
    content = json.dumps([kernel(1, 1)]).encode()
    _, damage = items(content + b"\0\0\0\0")
    assert damage.cut == (len(content), "what follows is no JSON")


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_deep_nesting_is_passed_over(opening: bytes) -> None:
    closing = {b"[": b"]", b'{"a":': b"}", b'[{"a":': b"}]"}[opening]
    deep = opening * 100_000 + b"1" + closing * 100_000
    good = json.dumps(kernel(1, 1, "good")).encode()
    for content in (
        b'{"deep":%b,"traceEvents":[%b]}' % (deep, good),
        b'{"traceEvents":[{"ph":"X","args":{"deep":%b}},%b]}' % (deep, good),
        b'{"traceEvents":[%b,%b]}' % (deep, good),
    ):
        found, _ = items(content)
        assert "good" in names(found)


def test_an_event_too_long_to_be_one_is_left_out() -> None:
    long = json.dumps(kernel(1, 1, "long", text=["x" * 1000] * 6000))
    short = json.dumps(kernel(2, 1, "short"))
    found, damage = items(f"[{short},{long},{short}]".encode())
    assert names(found) == ["short", "short"]
    assert (damage.broken, damage.broken_at) == (1, len(short) + 2)


def test_a_long_list_of_something_else_is_given_up_early() -> None:
    found, damage = items(b"[" + b"1.5," * 200_000 + b"2]")
    assert events(found) == []
    assert damage.broken < 50_000
    assert damage.cut is not None


@pytest.mark.parametrize(
    "text",
    [
        "[" + '{"ph":},' * 100_000,
        "[" + '{"ph":"X"},{"' * 50_000,
        "[" + "{}},{" * 150_000,
        '[{"a":' + "}]" * 300_000,
        "[" + '"' * 500_000,
        '[{"ph":"' + "\\" * 500_001,
        '{"traceEvents":[{"ph":"X","args":' + '{"a":' * 100_000,
        "{" + ",".join(f'"k{i}":1' for i in range(150_000)) + "}",
        '{"' + "k" * 500_000 + '":1}',
        " " * 500_000,
    ],
    ids=lambda text: text[:16],
)
def test_hostile_text_is_done_with_in_time_linear_in_it(text: str) -> None:
    # WHEN twice as much of it is read, THEN it takes less than four times as long, or no time at all
    def seconds(content: str) -> float:
        begin = time.process_time()
        items(content.encode())
        return time.process_time() - begin

    assert seconds(text * 2) < 0.5 + 4 * seconds(text)


def test_fields_that_are_missing_numbers_are_read_by_the_block() -> None:
    # Profilers write bandwidths so; each event alone would take many times as long.
    event = '{"ph":"X","cat":"gpu_memset","name":"Memset: nan, inf","args":{"bytes":1,"GB/s":inf}}'
    found, damage = items(f"[{','.join([event] * 1000)}]".encode())
    assert len(events(found)) == 1000
    assert len([item for item in found if isinstance(item, list)]) < 5
    assert names(found)[0] == "Memset: nan, inf"
    assert damage == Damage(json_stream.Repairs(numbers=1000))
