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


requests, answers = open(3), open(4, "w", buffering=1)
answers.write("ready\n")
for line in iter(requests.readline, ""):
    if line == "quit\n":
        break
    _, job, _, *variables = line.split()
    variables = dict(unquote(v).split("=", 1) for v in variables)
    os.environ.update(variables)
    answers.write(f"started {job}\n")
    try:
        code = run(int(job))
    except Exception:
        traceback.print_exc()
        code = 1
    for name in variables:
        del os.environ[name]
    sys.stdout.flush()
    sys.stderr.flush()
    answers.write(f"exit {job} {code}\n")
