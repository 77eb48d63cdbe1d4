"""``python -m reconciler`` is ``kquota``. Hands over to the command line; nothing else lives here."""

import sys

from reconciler.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
