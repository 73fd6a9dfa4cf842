"""Stop early, with what to do, where Python is too old."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  This very file runs on what is too old.
    sys.exit(
        f"Pegboard needs Python 3.11 or newer; this is {sys.version.split()[0]}. "
        "Name another one: make PYTHON=python3.12 …"
    )
