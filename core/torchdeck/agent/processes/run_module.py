"""`python run_module.py FOLDER MODULE ARGS...`: `python -m`, with FOLDER in place of the working directory.

A run's modules are those of its own copy of the code; what it reads and writes by relative paths is not.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    folder, module = sys.argv[1:3]
    if sys.path and Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
        del sys.path[0]
    sys.path.insert(0, folder)
    del sys.argv[1:3]
    # what `python -m` itself calls: the module is __main__, for workers and pickles too
    runpy._run_module_as_main(module)  # type: ignore[attr-defined]  # noqa: SLF001
