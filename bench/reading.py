#!/usr/bin/env python3
"""What reading takes: of the verbs that read a capture, of a fleet's costs tables, and of the page in a browser."""

import heapq
import importlib.util
import json
import os
import random
import subprocess
import sys
import time

import common

VERBS = "check;report;report --json;tune --policy kvm:max=50us;tune;tune --goal density;report --findings;verify;top --once"

SQL = """
WITH costs AS (
  SELECT halt_poll_ns h, grow_start_ns s, grow g, shrink k, half,
    sum((poll_ns::HUGEINT + sleeps::HUGEINT * switch_cpu_ns) * 1000
      + latency_ns::HUGEINT * CASE goal WHEN 'density' THEN 0 WHEN 'latency' THEN 10000 ELSE 1000 END) AS milli
  FROM read_parquet('{}/*/*/*.parquet', hive_partitioning = false) WHERE kind = 'grid' GROUP BY ALL)
SELECT h, s, g, k, v.milli::VARCHAR
FROM costs f JOIN costs v USING (h, s, g, k)
WHERE f.half = 'fit' AND v.half = 'validate'
  AND f.milli * 100 <= (SELECT min(milli) FROM costs WHERE half = 'fit') * 102
ORDER BY h, s, g, k LIMIT 1
"""
# Run in a process of its own, whose memory is DuckDB's alone.
DUCKDB = """
import duckdb, json, sys, time
duckdb.sql("SET enable_progress_bar = false")
begun = time.monotonic()
row = duckdb.sql(sys.argv[1]).fetchall()[0]
print(json.dumps([row, time.monotonic() - begun]))
"""

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPTS = os.path.join(ROOT, "crates/cli/tests/page")


def timed(words):
    """Seconds, seconds of CPU, peak in MB and output of a command."""
    begun = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        said = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 5):
        sys.exit(f"{' '.join(words)}: exit {child.returncode}")
    return time.monotonic() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000, said


def halts(args, vm):
    """The lines of a VM, with their times: it sleeps, is woken after its gap, and runs 20 us later."""
    draw, pid = random.Random(vm), 1000 + 4 * vm
    now, thread = draw.randrange(1_000_000), f"CPU 0/KVM {pid}/{pid + 1} [{vm % 256:03}]"
    at = lambda ns: f"{1000 + ns // 10**9}.{ns % 10**9:09}"
    for _ in range(args.halts):
        # A wake-up before the switch would be a line out of order, and a halt that is lost.
        woken = now + 1_000 + int(draw.expovariate(1 / args.gap_us) * 1000)
        ran = woken + 20_000
        yield now + 900, (f"{thread} {at(now + 900)}: sched:sched_switch: prev_comm=CPU 0/KVM prev_pid={pid + 1} prev_prio=120 "
                          "prev_state=S ==> next_comm=swapper next_pid=0 next_prio=120\n")
        yield woken, (f"vhost-{pid} {pid}/{pid + 2} [{vm % 256:03}] {at(woken)}: sched:sched_waking: comm=CPU 0/KVM pid={pid + 1} "
                      "prio=120 target_cpu=000\n")
        yield ran, f"{thread} {at(ran)}: kvm:kvm_vcpu_wakeup: wait time {ran - now} ns, polling valid\n"
        now = ran + 5_000


def verbs(args):
    """Time, CPU time and most memory of each verb that reads a capture, in medians; verbs take turns.

    The capture is an import of VMs of one vCPU whose gaps are exponential, recorded without polling. --vms 60000 --halts 30 is a
    host of many VMs; an import keeps 65,536 threads.
    """
    asked = args.verbs.split(";")
    taken = {verb: [] for verb in asked}
    with common.place() as capture:
        given = "--kernel 6.12 --max 0 --grow 2 --grow-start 10us --shrink 2 -"
        words = [args.haltwise, "import", "-o", capture, *given.split()]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as made:
            made.stdin.writelines(line for _, line in heapq.merge(*(halts(args, vm) for vm in range(args.vms))))
        for _ in range(args.rounds):
            for verb in common.shuffled(asked):
                first, *rest = verb.split()
                taken[verb].append(timed([args.haltwise, first, capture, *rest])[:3])
    base = common.estimate([seconds for seconds, *_ in taken[asked[0]]])[0]
    for verb in asked:
        seconds, cpu, memory = (common.estimate(figures)[0] for figures in zip(*taken[verb]))
        yield {"verb": verb, "seconds": seconds, f"of {asked[0]}": seconds / base, "cpu_s": cpu, "mb": memory, "runs": taken[verb]}


def fleet(args):
    """Time and memory of `haltwise fleet show` on made-up hosts of one day each, beside DuckDB's Python package.

    Both must find the same setting at the same cost, to the unit. DuckDB answers the first part of the question alone: the one
    setting (the lowest of those that cost no more than 2 % above the cheapest) and its cost.
    `cargo build --release -p haltwise-capture --examples` makes the maker of the tables.
    """
    for hosts in args.hosts.split(","):
        with common.place() as lake:
            subprocess.run([args.maker, lake, hosts, str(args.vms)], stdout=subprocess.DEVNULL, check=True)
            size = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(lake) for name in names)
            seconds, _, peak, said = timed([args.haltwise, "fleet", "show", lake, "--json"])
            said = json.loads(said)
            row = {"hosts": int(hosts), "rows": said["read"]["rows"], "bytes": size, "seconds": seconds, "peak_mb": peak}
            if importlib.util.find_spec("duckdb"):
                *_, their_peak, theirs = timed([sys.executable, "-c", DUCKDB, SQL.format(lake)])
                found, their_seconds = json.loads(theirs)
                ours = [said["one"][f"halt_poll_ns{it}"] for it in ("", "_grow_start", "_grow", "_shrink")]
                ours += [plan["cost_milli"] for plan in said["plans"] if plan["plan"] == "one"]
                if ours != found:
                    sys.exit(f"{hosts} hosts: {ours} here and {found} by DuckDB")
                row.update(duckdb_seconds=their_seconds, duckdb_peak_mb=their_peak, of_duckdb=seconds / their_seconds)
            yield row


def page(args):
    """First paint of the page of `report --html`, and a step of a slider, which shows another setting of the grid.

    Measured in the browser that the tests use (tools/setup), of an hour of ten VMs or of --page. bench.mjs there has the figures:
    first paint is in a browser just started, word of a page of one word, rested once the start is over, again in another tab.
    """
    if not os.path.exists(os.path.join(SCRIPTS, "node_modules/puppeteer-core")):
        sys.exit("node_modules of the page's tests are missing: run tools/setup")
    where = os.path.join(ROOT, "target/page-bench")
    if not args.page:
        os.makedirs(where, exist_ok=True)
        cargo = "cargo test --quiet -p haltwise --test golden -- --ignored --exact page::an_hour_of_ten_vms"
        env = {**os.environ, "HALTWISE_PAGE_DIR": where, "HALTWISE_PAGE_HALTS": str(args.halts)}
        subprocess.run(cargo.split(), cwd=ROOT, env=env, stdout=subprocess.DEVNULL, check=True)
    html = os.path.abspath(args.page or os.path.join(where, "hour.html"))
    print(f"{os.path.getsize(html) // 1000} kB in {args.rounds} browsers")
    node = ["node", os.path.join(SCRIPTS, "bench.mjs"), html, str(args.rounds)]
    said = subprocess.run(node, capture_output=True, text=True, check=True).stdout
    rounds = [json.loads(line) for line in said.splitlines()]
    for figure in rounds[0]:
        many = [one[figure] if isinstance(one[figure], list) else [one[figure]] for one in rounds]
        values = sorted(value for some in many for value in some if value is not None)
        yield {"figure": figure, "median": common.at(values, 0.5), "95 %": common.at(values, 0.95), "largest": values[-1],
               "count": len(values), "values": values}


if __name__ == "__main__":
    common.main(__doc__, verbs=(verbs, {"vms": 4, "halts": 2_500_000, "gap_us": 60, "rounds": 3, "verbs": VERBS}),
                fleet=(fleet, {"maker": "target/release/examples/large_fleet", "hosts": "100,1000,10000", "vms": 28}),
                page=(page, {"rounds": 15, "halts": 2_000_000, "page": ""}))
