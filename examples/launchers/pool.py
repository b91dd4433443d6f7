"""Runs one job after the other in this process (launcher_mode = pool). What a job leaves behind,
the next one finds: globals, open transactions, changed settings."""
import os
import sys
import traceback
from urllib.parse import unquote

# import application


def run(job):
    """Runs one job; what it returns is the job's exit code."""
    print(f"job {job}, attempt {os.environ.get('JOBD_ATTEMPT', 1)}")
    return 0


def result(job):
    """The exit code of a job, however it ends."""
    try:
        return int(run(job) or 0) & 255
    except SystemExit as e:  # sys.exit ends the job, and not this process
        if e.code is None or isinstance(e.code, int):
            return (e.code or 0) & 255
        print(e.code, file=sys.stderr)
    except Exception:
        traceback.print_exc()
    return 1


requests, answers = open(3), open(4, "w", buffering=1)
sys.stdout.flush()  # what was written while loading is no job's
sys.stderr.flush()
answers.write("ready\n")
for line in iter(requests.readline, ""):
    if line == "quit\n":
        break
    _, job, _, *variables = line.split()
    variables = dict(unquote(v).split("=", 1) for v in variables)
    os.environ.update(variables)
    answers.write(f"started {job}\n")
    code = result(int(job))
    for name in variables:
        del os.environ[name]
    sys.stdout.flush()
    sys.stderr.flush()
    answers.write(f"exit {job} {code}\n")
