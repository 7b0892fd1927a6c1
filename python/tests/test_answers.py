"""One answer: what the package answers is what the program prints, with its words where there is none."""

import os
import sys
import threading
import warnings

import pytest

import haltwise
from conftest import NAMES

ANSWERS = [
    (["report"], lambda capture: capture.account()),
    (
        ["tune", "--policy", "off", "--policy", "kvm:max=50us", "--goal", "latency"],
        lambda capture: capture.replay(["off", "kvm:max=50us"], goal="latency"),
    ),
    (["tune", "--policy", "usual"], lambda capture: capture.replay()),
    (["tune", "--goal", "density"], lambda capture: capture.tune("density")),
    (["verify", "--kernel", "6.12"], lambda capture: capture.verify(kernel="6.12")),
]
EXCEPTIONS = {1: haltwise.Error, 2: haltwise.UsageError, 3: haltwise.UnsupportedError, 5: haltwise.DamageError}


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_the_programs(captures, answer_of, name):
    path = str(captures / name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        capture = haltwise.open(path)
    for words, ask in ANSWERS:
        code, expected, said = answer_of(*words, path)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                answered = ask(capture)
            except haltwise.Error as error:
                assert expected is None and code == error.exit_code, (words, error)
                assert f"error: {error}\n" == said, words
                assert type(error) is EXCEPTIONS[code]
                continue
        assert answered == expected, words
        assert [str(it.category is haltwise.DamageWarning) for it in warned] == ["True"] * (code == 5), words


def test_a_damaged_capture_warns_and_carries_its_notes(captures):
    with pytest.warns(haltwise.DamageWarning, match="was not finished by its recorder"):
        capture = haltwise.open(captures / "cut")
    assert any("was not finished by its recorder" in note for note in capture.notes)
    with pytest.warns(haltwise.DamageWarning):
        assert capture.account()["recording"]["cut"]


def test_an_error_says_what_failed_and_what_to_do(captures, tmp_path):
    with pytest.raises(haltwise.Error) as missing:
        haltwise.open(tmp_path / "missing")
    assert str(tmp_path / "missing") in str(missing.value)
    assert missing.value.hint and missing.value.hint in str(missing.value)
    with pytest.raises(haltwise.UsageError, match="--goal"):
        haltwise.open(captures / "bursty").tune("fast")
    with pytest.raises(haltwise.UsageError, match="not-a-vm"):
        haltwise.open(captures / "bursty").account(vm="not-a-vm")
    with pytest.raises(KeyError):
        haltwise.open(captures / "bursty").table("no-such-table")


def test_a_directory_may_have_the_name_of_an_option_or_of_stdin(captures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ["-", "--json"]:
        os.symlink(captures / "bursty", name)
        assert haltwise.open(name).account()["host"]["account"]["halts"] > 0


def test_names_of_strangers_are_data(captures, answer_of):
    capture = haltwise.open(captures / "hostile-names")
    _, expected, _ = answer_of("report", captures / "hostile-names")
    names = [vm["name"] for vm in capture.account()["vms"]]
    assert names == [vm["name"] for vm in expected["vms"]]
    assert any(not character.isprintable() for name in names for character in name)
    with pytest.raises(haltwise.UsageError) as error:
        capture.account(vm="\x1b[2J")
    assert "\x1b" not in str(error.value)


def test_other_threads_run_while_a_capture_is_read(captures):
    interval = sys.getswitchinterval()
    # From here on a thread runs only where another one waits, or gives the lock away.
    sys.setswitchinterval(1000)
    try:
        for _ in range(100):
            began, ran = threading.Event(), []
            other = threading.Thread(target=lambda: (began.wait(), ran.append(True)))
            other.start()
            began.set()
            haltwise.open(captures / "fleet").tune()
            ran_meanwhile = bool(ran)
            other.join()
            if ran_meanwhile:
                return
    finally:
        sys.setswitchinterval(interval)
    pytest.fail("no other thread ran")


def test_an_archive_is_a_capture(captures, tmp_path):
    whole = haltwise.open(captures / "bursty")
    with haltwise.unpacked(whole.pack()) as unpacked:
        assert unpacked.account() == whole.account()
    with pytest.raises(OSError, match="archive"):
        with haltwise.unpacked(b"no archive"):
            pass
