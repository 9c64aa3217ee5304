"""`torchdeck` alone, which says when its window was first painted: one line of JSON, then it closes.

`python window_start_worker.py first`; `all` waits until every place has been made, and `empty` opens a bare
window of Qt's.
"""

import json
import os
import sys
import time
from pathlib import Path


def opened(what: str) -> int:
    """The command line's own way, looked at from inside the event loop."""
    from torchdeck_app.window.qt_start import load_qt

    load_qt()
    from PySide6.QtCore import Qt
    from PySide6.QtWidgets import QApplication

    original = QApplication.exec

    def watched(*_: object) -> int:
        from torchdeck_app.window.main_window import MainWindow

        window = next(top for top in QApplication.topLevelWidgets() if isinstance(top, MainWindow))
        ready = window.stack.all_made if what == "all" else window.painted
        ready.connect(say)
        ready.connect(window.close, Qt.ConnectionType.QueuedConnection)
        return original()

    QApplication.exec = watched  # type: ignore[method-assign]  # the one way in
    from torchdeck.cli.main import main

    return main([])


def empty() -> int:
    """What Qt itself needs."""
    from PySide6.QtCore import QTimer
    from PySide6.QtWidgets import QApplication, QMainWindow

    app = QApplication([])
    window = QMainWindow()
    window.resize(1280, 800)
    window.show()
    QTimer.singleShot(0, say)
    QTimer.singleShot(0, app.quit)
    return app.exec()


def say() -> None:
    """Now, on the clock that all processes share, and the memory that is resident."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    heavy = sorted({"numpy", "pydantic", "pyqtgraph", "torch"} & set(sys.modules))
    print(
        json.dumps(
            {
                "time": time.monotonic(),
                "processor": time.process_time(),
                "bytes": pages * os.sysconf("SC_PAGE_SIZE"),
                "imported": heavy,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(empty() if sys.argv[1] == "empty" else opened(sys.argv[1]))
