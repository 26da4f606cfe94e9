"""``python -m lakeroot`` is the command ``lakeroot``."""

from lakeroot.cli import main

main()
