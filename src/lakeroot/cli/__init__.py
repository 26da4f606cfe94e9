"""The command line. Commands are loaded when they are called, so that help is quick."""

from lakeroot.cli.app import main

__all__ = ["main"]
