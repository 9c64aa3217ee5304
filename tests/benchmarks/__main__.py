"""Run benchmarks and print one table: `python tests/benchmarks [NAME ...]`, as in `telemetry` for
bench_telemetry.py.

The exit status is 1 when a goal was missed or a benchmark failed.
"""

import importlib
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.rows import Row, table  # noqa: E402 - tests/ is on the path only now


def modules() -> dict[str, str]:
    """Every benchmark there is, and its module."""
    found = {path.stem: path.relative_to(HERE.parent).with_suffix("") for path in HERE.rglob("bench_*.py")}
    return {name.removeprefix("bench_"): ".".join(path.parts) for name, path in sorted(found.items())}


def main(asked: list[str]) -> int:
    names = modules()
    unknown = sorted(set(asked) - set(names))
    if unknown:
        print(f"there is no benchmark {unknown[0]!r}; there is {', '.join(names)}", file=sys.stderr)
        return 2
    rows: list[Row] = []
    failed = []
    for name in asked or names:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        try:
            rows += importlib.import_module(names[name]).run()
        except Exception:  # noqa: BLE001 - one that fails is said, and the others are measured all the same
            traceback.print_exc()
            failed.append(name)
    print(table(rows))
    for name in failed:
        print(f"{name}: FAILED, see above")
    return 1 if failed or any(row.met is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
