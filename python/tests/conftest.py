"""What tests share: the program that is built with the package, and captures."""

import contextlib
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "crates/cli/tests/golden/captures"
NAMES = sorted(path.name for path in CAPTURES.iterdir())


@pytest.fixture
def captures():
    """The captures of the golden tests, which are made from seeds."""
    return CAPTURES


@pytest.fixture(scope="session")
def fleet():
    """Captures of many seeded hosts (the example `seeded_captures` of haltwise-capture)."""
    return pathlib.Path(os.environ["HALTWISE_FLEET"])


@pytest.fixture(scope="session")
def program():
    """Has the program answer a command line: its exit code, stdout and stderr."""

    def run(*words):
        done = subprocess.run([os.environ["HALTWISE_PROGRAM"], *map(str, words)], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture(scope="session")
def answer_of(program):
    """What the program prints with --json, or its error and hint."""

    def run(*words):
        code, out, said = program(*words, "--json")
        # A verb may print a result and end with an error, where the result says nothing.
        if "error: " in said:
            return code, None, said
        return code, json.loads(out), said

    return run


@contextlib.contextmanager
def spark_session(master):
    """A session of Spark in this process."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("haltwise tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


#: Classes of the VMs of the fleet, by patterns of their names.
CLASSES = {"web-*": "web", "db-*": "db"}


@pytest.fixture(scope="session")
def lake(fleet, program, tmp_path_factory):
    """The costs tables of the fleet, as the program writes them."""
    lake = tmp_path_factory.mktemp("lake")
    classes = [f"--class={name}={of}" for name, of in CLASSES.items()]
    for path in sorted(fleet.iterdir()):
        code, _, said = program("fleet", "add", path, "--lake", lake, *classes)
        assert code == 0, said
    return lake
