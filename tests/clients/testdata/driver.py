"""Does with jobd.py what its arguments say, as all drivers here do: see driver_test.go."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["CLIENTS"])
from jobd import Jobd, JobdError  # noqa: E402

env = os.environ
limit = float(env.get("JOBCTL_TIMEOUT") or 0)
jobs = Jobd(env["JOBCTL_HOST"], int(env["JOBCTL_PORT"]), env.get("JOBCTL_PASSWORD"),
            env["JOBCTL_MASTER"] == "true", limit or 10)
jobs.pulse = float(env.get("JOBCTL_PULSE", 30))


def split(word):
    id, _, target = word.partition(":")
    return int(id), target


def enqueue(end, target, status, payload):
    if "APP_SQLITE" in env:
        import sqlite3
        connection = sqlite3.connect(env["APP_SQLITE"])
        connection.execute("INSERT INTO orders (text) VALUES (?)", [payload])
    else:
        import pymysql
        connection = pymysql.connect(
            host=env["APP_HOST"], port=int(env["APP_PORT"]), user=env["APP_USER"],
            password=env["APP_PASSWORD"], database=env["APP_DATABASE"], charset="utf8mb4")
        connection.cursor().execute("INSERT INTO orders (text) VALUES (%s)", [payload])
    id = jobs.enqueue(connection, target, {"status": status, "payload": payload})
    connection.commit() if end == "commit" else connection.rollback()
    print(id)


def main(command, *words):
    if command == "enqueue":
        enqueue(*words)
    elif command == "poke":
        jobs.poke(*words)
    elif command == "run":
        print(json.dumps(jobs.run(dict(map(split, words)), limit or float("inf"))))
    elif command == "signal":
        print(json.dumps(jobs.signal(*split(words[1]), int(words[0]))))
    elif command == "status":
        print(json.dumps(jobs.status()))


try:
    main(*sys.argv[1:])
except JobdError as error:
    print("{}: {}".format(error.code, error), file=sys.stderr)
    sys.exit(3)
