"""A fleet's captures on Spark: which captures there are, their accounts, and whether KVM's algorithm explains them.

A row is a capture. Spark lists and fetches the files from whatever file system it knows and hands the rows out; in each
task ``mapInArrow`` runs the code of the program in this package, which must be installed on the workers. Nothing here
reads a file on the driver, so that local mode and a cluster run the same code.

One ``spark-submit`` does it for a directory of captures::

    spark-submit --master 'local[*]' "$(python -m haltwise.spark --path)" accounts hdfs:///captures -o hdfs:///accounts
"""

from __future__ import annotations

import re
from functools import reduce
from typing import Any, Callable, Dict, Iterable, Optional, Sequence, Tuple, Union

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from haltwise import tasks
from haltwise.costs import named_options

#: Bytes of captures that Spark hands to a task at a time, at least one capture.
_BATCH_BYTES = 64 << 20

#: Files of a capture, and archives of whole ones (``haltwise record -o -``).
_FILES, _ARCHIVES = "{capture.json,*.parquet,*.arrows}", "*.tar"

#: Bytes of a capture that Spark carries at most: it becomes a value of one row, which has to be smaller than 2 GiB.
_MOST_BYTES = 2_000_000_000


def captures(
    spark: SparkSession,
    paths: Union[str, Sequence[str]],
    *,
    fetch: Optional[bool] = None,
    partitions: Optional[int] = None,
) -> DataFrame:
    """The captures below these directories, at any depth: a row each, with the column ``capture``, its path.

    ``fetch`` has Spark read the files and carry them to the tasks, in the column ``files``; this is what all file
    systems need but one that every worker has mounted. By default it is done unless the path is of scheme ``file``.
    Archives (``*.tar``) are always carried. A capture of more than 2 GB is not carried: it has an ``error`` in place of
    results. ``partitions`` is the number of tasks (by default four for each CPU).
    """
    paths = [paths] if isinstance(paths, str) else list(paths)
    # Settings of ours are for our queries alone.
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(_BATCH_BYTES))
    mounted = [path for path in paths if (_is_mounted(spark, path) if fetch is None else not fetch)]
    others = [path for path in paths if path not in mounted]
    frames = [_carried(session, paths, _ARCHIVES)]
    if mounted:
        frames.append(_listed(session, mounted))
    if others:
        frames.append(_carried(session, others, _FILES))
    parts = partitions or 4 * spark.sparkContext.defaultParallelism
    return reduce(DataFrame.union, frames).repartition(parts)


def _is_mounted(spark: SparkSession, path: str) -> bool:
    """Whether a path is one of the machine's own file system, as Hadoop is configured."""
    context: Any = spark.sparkContext
    system = context._jvm.org.apache.hadoop.fs.Path(path).getFileSystem(context._jsc.hadoopConfiguration())
    return str(system.getScheme()) == "file"


def _files(session: SparkSession, paths: Sequence[str], names: str) -> DataFrame:
    """Files of captures, each with the path of its capture. Spark reads a file only where its content is asked for."""
    files = (
        session.read.format("binaryFile")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", names)
        .load(list(paths))
        .withColumn("name", F.element_at(F.split("path", "/"), -1))
    )
    above = F.regexp_replace("path", "/[^/]*$", "")
    return files.withColumn("capture", F.col("path") if names == _ARCHIVES else above)


def _by_capture(files: DataFrame, *columns: Any) -> DataFrame:
    """Rows by capture of what is one."""
    is_capture = F.max(F.col("name").endswith(".tar") | (F.col("name") == "capture.json"))
    return files.groupBy("capture").agg(*columns, is_capture.alias("is_capture")).where("is_capture")


def _collected(content: Any) -> Any:
    return F.collect_list(F.struct(F.col("name").alias("name"), content.alias("content"))).alias("files")


def _listed(session: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Captures that tasks read where they are."""
    listed = _by_capture(_files(session, paths, _FILES), _collected(F.lit(None).cast("binary")))
    return listed.select("capture", "files", F.lit(None).cast("bigint").alias("too_large"))


def _carried(session: SparkSession, paths: Sequence[str], names: str) -> DataFrame:
    """Captures that Spark carries to the tasks, and those that are too large for that."""
    sizes = _by_capture(_files(session, paths, names), F.sum("length").alias("bytes"))
    small = F.broadcast(sizes.where(F.col("bytes") <= _MOST_BYTES).select("capture"))
    # Of larger files Spark looks at the length alone.
    files = _files(session, paths, names).where(F.col("length") <= _MOST_BYTES)
    carried = _by_capture(files.join(small, "capture", "left_semi"), _collected(F.col("content")))
    none = F.array().cast("array<struct<name:string,content:binary>>").alias("files")
    too_large = sizes.where(F.col("bytes") > _MOST_BYTES).select("capture", none, F.col("bytes").alias("too_large"))
    return carried.select("capture", "files", F.lit(None).cast("bigint").alias("too_large")).union(too_large)


def accounts(frame: DataFrame) -> DataFrame:
    """Where the halted time of each VM goes: rows by capture and VM, of whole numbers that add up.

    A capture that cannot be read has one row, with ``error`` and without a VM; ``notes`` is what must be known about a
    capture that can.
    """
    return _mapped(frame, tasks.ACCOUNTS, ("report", {}))


def verify(frame: DataFrame, **options: Any) -> DataFrame:
    """Check each capture against KVM's halt polling algorithm: a row each, with halts ``checked`` and ``differences``.

    Options are those of :meth:`haltwise.Capture.verify`.
    """
    return _mapped(frame, tasks.VERIFIED, ("verify", options))


def costs(frame: DataFrame, **options: Any) -> DataFrame:
    """The costs table of each capture: what every setting of a grid would have cost each VM, as sums that add up.

    Options are those of :meth:`haltwise.Capture.costs`. A capture that cannot be read has one row, with ``error``.
    """
    return frame.mapInArrow(tasks.CostsTask(named_options(**options)), tasks.COSTS_SCHEMA)


def costs_tables(spark: SparkSession, paths: Union[str, Sequence[str]]) -> DataFrame:
    """Costs tables that ``haltwise fleet add --lake`` has written, in the form of :func:`costs`."""
    paths = [paths] if isinstance(paths, str) else list(paths)
    # Directories are named host=…/date=…, which the rows say, too.
    read = spark.read.option("recursiveFileLookup", "true").parquet(*paths)
    columns = [F.col(name).cast(of).alias(name) for name, of in tasks.COSTS.items()]
    none = F.lit(None).cast("string")
    return read.select(F.input_file_name().alias("capture"), *columns, none.alias("error"))


def tune(costs: DataFrame, by: Union[str, Sequence[str]] = "kernel", **options: Any) -> DataFrame:
    """What the hosts of each cohort should set, from costs tables: a row each.

    ``by`` and the options are those of :func:`haltwise.best`. A cohort's rows come together in one task. Where a capture
    could not be read, or :func:`haltwise.best` refuses its table, a row has its ``error``.
    """
    by = by.split(",") if isinstance(by, str) else list(by)
    keys = [_key(name).alias(f"_key_{number}") for number, name in enumerate(by)]
    named = costs.select("*", *keys)
    groups = [f"_key_{number}" for number in range(len(by))]
    # What keys do not need is not carried: histograms are most of a table.
    named = named.withColumn("latency_hist", F.lit(None).cast("array<bigint>"))

    def run(table: Any) -> Any:
        return tasks.best_of(table, by, options)

    grouped = named.groupBy(*groups, "error")
    return grouped.applyInArrow(run, tasks.BEST_SCHEMA)


def _key(name: str) -> Any:
    """What a key of cohorts is in a costs table."""
    if name.startswith("label:"):
        return F.regexp_extract("labels", f"(?:^|,){re.escape(name[6:])}=([^,]*)", 1)
    return F.col({"cpu": "cpu_model"}.get(name, name))


def answers(frame: DataFrame, verb: str, **options: Any) -> DataFrame:
    """What any verb that reads a capture prints with ``--json``: a row each, with the JSON as text in ``answer``."""
    return _mapped(frame, tasks.ANSWERS, (verb, options))


def _mapped(frame: DataFrame, kind: tasks.Kind, asked: Tuple[str, Dict[str, Any]]) -> DataFrame:
    return frame.mapInArrow(tasks.Task(kind.name, *asked), kind.schema)


def main(words: Optional[Iterable[str]] = None) -> None:
    """What ``spark-submit`` runs."""
    import argparse

    parser = argparse.ArgumentParser(prog="haltwise.spark", description=__doc__.splitlines()[0])
    parser.add_argument("--path", action="version", version=__file__, help="print this file's path, for spark-submit")
    parser.add_argument("what", choices=["captures", "accounts", "verify", "costs", "tune"])
    parser.add_argument("paths", nargs="+", metavar="PATH", help="directories of captures")
    parser.add_argument("--by", default="kernel", help="cohorts of tune, as of haltwise fleet show --by")
    parser.add_argument("-o", "--output", metavar="PATH", help="write Parquet there, instead of printing rows")
    given = parser.parse_args(None if words is None else list(words))
    spark = SparkSession.builder.appName(f"haltwise {given.what}").getOrCreate()
    frame = captures(spark, given.paths)
    jobs: Dict[str, Callable[[DataFrame], DataFrame]] = {
        "captures": lambda it: it.select("capture"),
        "accounts": accounts,
        "verify": verify,
        "costs": costs,
        "tune": lambda it: tune(costs(it), given.by),
    }
    result = jobs[given.what](frame)
    if given.output:
        result.write.parquet(given.output)
    else:
        result.show(1000, truncate=False)


if __name__ == "__main__":
    main()
