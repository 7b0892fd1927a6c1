#!/usr/bin/env python3
"""How fast the page of `report --html` is, of an hour of ten VMs: the first paint, and a step of a slider, which shows another
setting of the grid. Measured in the browser that the tests use (tools/setup): median, 95 % and largest.

    bench/page.py [--rounds 15] [--halts 2000000] [--page FILE]
"""

import json
import os
import subprocess
import sys

import common

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPTS = os.path.join(ROOT, "crates/cli/tests/page")
FIELDS = [
    ("first_paint_ms", "first paint, browser just started"),
    ("word_paint_ms", "the same of a page of one word"),
    ("rested_paint_ms", "first paint, its own start over"),
    ("again_paint_ms", "first paint, browser running"),
    ("ready_ms", "everything ready"),
    ("step_ms", "a step of a slider"),
]


def make(halts):
    """Has a capture of an hour of ten VMs and its page made; gives the page."""
    where = os.path.join(ROOT, "target/page-bench")
    os.makedirs(where, exist_ok=True)
    cargo = ["cargo", "test", "--quiet", "-p", "haltwise", "--test", "golden", "--", "--ignored", "--exact",
             "page::an_hour_of_ten_vms"]
    env = {**os.environ, "HALTWISE_PAGE_DIR": where, "HALTWISE_PAGE_HALTS": str(halts)}
    subprocess.run(cargo, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, check=True)
    return os.path.join(where, "hour.html")


def main():
    args = common.options(__doc__, rounds=15, halts=2_000_000, page="")
    if not os.path.exists(os.path.join(SCRIPTS, "node_modules/puppeteer-core")):
        sys.exit("node_modules of the page's tests are missing: run tools/setup")
    page = os.path.abspath(args.page or make(args.halts))
    print(f"{os.path.getsize(page) // 1000} kB in {args.rounds} browsers")
    node = ["node", os.path.join(SCRIPTS, "bench.mjs"), page, str(args.rounds)]
    said = subprocess.run(node, capture_output=True, text=True, check=True).stdout
    rounds = [json.loads(line) for line in said.splitlines()]
    for field, title in FIELDS:
        many = [one[field] if isinstance(one[field], list) else [one[field]] for one in rounds]
        values = sorted(value for some in many for value in some if value is not None)
        at = lambda share: values[min(len(values) - 1, max(0, -int(-share * len(values) // 1) - 1))]
        print(f"{title}: {at(0.5):.1f} ms (median), {at(0.95):.1f} ms (95 %), {values[-1]:.1f} ms (largest), {len(values)} values")


if __name__ == "__main__":
    main()
