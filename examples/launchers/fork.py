"""Runs jobs as forks of this process, which has loaded the application once
(launcher_mode = fork). Open no connections and start no threads before the fork."""
import os
import signal
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
    except BaseException:
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
    try:
        pid = os.fork()
    except OSError:
        answers.write(f"refused {job}\n")
        continue
    if pid > 0:
        answers.write(f"ended {job} {os.waitpid(pid, 0)[1]}\n")
        continue
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends a job as every other signal does
        os.setpgid(0, 0)
        os.environ.update(unquote(v).split("=", 1) for v in variables)
        answers.write(f"started {job} {os.getpid()}\n")
        code = result(int(job))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)  # not sys.exit: that would end what the parent needs still
