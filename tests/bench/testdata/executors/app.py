"""The application that all of Python's jobs load: some of the modules that applications load."""
import asyncio  # noqa: F401
import decimal  # noqa: F401
import email.message  # noqa: F401
import http.client  # noqa: F401
import json  # noqa: F401
import logging  # noqa: F401
import os
import sqlite3  # noqa: F401
import urllib.request  # noqa: F401


def run(job):
    """Runs one job: rings where somebody waits for that."""
    if bell := os.environ.get("BENCH_BELL"):
        with open(bell, "w") as pipe:
            pipe.write("\n")
    return 0
