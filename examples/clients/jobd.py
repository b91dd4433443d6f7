"""A client of jobd for Python 3.8 and newer: one file, nothing else is needed. Copy it.

    jobs = Jobd(password="something long")               # a master on this host
    id = jobs.enqueue(connection, "mail", {"payload": "…"})   # a row, in your transaction
    connection.commit()
    jobs.poke("mail")                                    # after COMMIT: nobody sees the row earlier

A Jobd keeps no connection: each request makes its own, so threads and forks may share one object.
docs/clients.md says more, docs/protocol.md what else a daemon can be asked.
"""
import json
import re
import socket
import sys
import time

EOT = b"\x04"          # ends each message
EXACT = 2**53 - 1      # an id beyond it goes as a string: many languages would round the number
SHORT = 0.3            # seconds that one of several daemons may take for a ping or a poke, while others follow
LONGEST = 64 << 20     # bytes of an answer
OBJECTS = ("run-manual", "send-signal", "status")  # are answered with an object


class JobdError(Exception):
    """What went wrong. code is jobd's (docs/protocol.md), or one of the client's own: unreachable
    (nothing was asked), timeout and lost (it may have been done), nonsense (this is no jobd)."""

    def __init__(self, text, code):
        super().__init__(text)
        self.code = code


class Jobd:
    pulse = 30  # seconds of silence after which the daemon must answer a ping

    def __init__(self, host="127.0.0.1", port=None, password=None, master=True, timeout=10):
        """host: of masters also several, "a, b:7082, [::1]:7081". master: whether a master (7081) or a
        worker (7080) listens there. timeout: in seconds."""
        self.host, self.port = host, port or (7081 if master else 7080)
        self.password, self.master, self.timeout = password, master, timeout
        self.others, self.several = False, []  # others: follow it in a list
        for name in host.split(",") if "," in host else ():
            name, _, own = re.fullmatch(r"(\[.+\]|[^:]+)(:(\d+))?", name.strip()).groups()
            each = Jobd(name.strip("[]"), int(own or self.port), password, master, timeout)
            each.others = len(self.several) < host.count(",")
            self.several.append(each)

    def enqueue(self, connection, target, columns=None, table="jobs"):
        """Inserts a row through any DB-API connection, in the transaction that is open there, and
        gives its id. columns: the row's others, as {"status": "manual"} or your own."""
        row = {"target": target, "time_created": int(time.time()), **(columns or {})}
        driver = sys.modules.get(type(connection).__module__.partition(".")[0])
        mark = "?" if getattr(driver, "paramstyle", "") == "qmark" else "%s"
        statement = "INSERT INTO {} ({}) VALUES ({})".format(
            _quoted(*table.split(".")), ", ".join(map(_quoted, row)), ", ".join([mark] * len(row)))
        cursor = connection.cursor()
        try:
            cursor.execute(statement, list(row.values()))
            return cursor.lastrowid
        finally:
            cursor.close()

    def poke(self, *targets):
        """Tells the workers that rows of these targets wait. Call it after COMMIT."""
        self.request("poke" if self.master else "poll", {"targets": list(targets)})

    def run(self, jobs, timeout=float("inf")):
        """Runs rows whose status is manual, {id: target}, and waits until they have ended. Gives
        {"jobs": {id: {result, code, signal, stdout, stderr}}, "errors": {id: why it didn't run}}."""
        ids = [_number(id) for id in jobs]
        data = {"jobs": [{"id": i, "target": t} for i, t in zip(ids, jobs.values())]}
        answer = self.request("run-manual", data if self.master else {"ids": ids}, timeout)
        try:
            return {part: {int(id): told for id, told in (answer.get(part) or {}).items()}
                    for part in ("jobs", "errors")}
        except (AttributeError, ValueError):
            raise self._nonsense("run-manual", answer) from None

    def signal(self, id, target, number):
        """Sends a running job a signal, as 15; True if it was delivered."""
        data = {"jobs": [{"id": _number(id), "target": target, "signal": int(number)}]}
        answer = self.request("send-signal", data if self.master else {"jobs": {id: int(number)}})
        errors = answer.get("errors") or {}
        if not isinstance(errors, dict):
            raise self._nonsense("send-signal", answer)
        if str(id) in errors:
            raise JobdError(errors[str(id)], "refused")
        return answer.get(str(id)) is True

    def status(self):
        """What the worker, or the master and all its workers, tell of themselves."""
        return self.request("status", {"poll_workers": True} if self.master else None)

    def request(self, kind, data=None, timeout=None):
        """Asks anything of docs/protocol.md and gives the answer's data. Of several daemons the first
        that answers a ping is asked, and no other one what that one may have been asked; a poke goes
        to all, since what one has taken is lost with it."""
        if self.several:
            return self._request_one_of(kind, data, timeout)
        deadline = time.monotonic() + (timeout or self.timeout)
        body = {"no": 1, "type": kind, "data": data, "password": self.password or ""}
        message = json.dumps([0, body, "codes"]).encode() + EOT
        if len(message) > 60000:  # what is longer is taken only from those who gave the password
            proof = dict(body, no=2, type="status", data=None)
            message = json.dumps([0, proof, "codes"]).encode() + EOT + message
        try:
            limit = min(timeout or self.timeout, self.timeout, SHORT if self.others else self.timeout)
            link = socket.create_connection((self.host, self.port), limit)
            if self.others:  # a process that is stopped takes connections, too
                link.sendall(b"[2]" + EOT)
                if not link.recv(4, socket.MSG_WAITALL):
                    raise OSError("it answers no ping")
        except OSError as error:
            raise self._error("can't be reached: {}".format(error), "unreachable") from error
        with link:
            try:
                link.sendall(message)
                for kind_of, *rest in self._messages(link, kind, deadline):
                    answer = rest[0] if rest and isinstance(rest[0], dict) else {}
                    if kind_of == 2:
                        link.sendall(b"[3]" + EOT)
                    elif kind_of == 1 and "error" in answer:  # there is nothing else it could be about
                        code = answer.get("code")
                        raise self._error("refuses {}: {}".format(kind, answer["error"]),
                                          code if isinstance(code, str) else "refused")
                    elif kind_of == 1 and answer.get("no") == 1:
                        if kind in OBJECTS and not isinstance(answer.get("data"), dict):
                            raise self._nonsense(kind, answer)
                        return answer.get("data")
            except OSError as error:
                raise self._error("was lost before it answered {}: {}".format(kind, error), "lost") from error

    def _request_one_of(self, kind, data, timeout):
        pokes, told, failed = kind in ("poke", "poll"), [], None
        for each in self.several:
            each.pulse = self.pulse
            try:
                told.append(each.request(kind, data, SHORT if pokes and (each.others or told) else timeout or self.timeout))
                if not pokes:
                    break
            except JobdError as error:
                failed = error
                if not pokes and error.code != "unreachable":
                    break
        if not told:
            raise failed
        return told[0]

    def _messages(self, link, kind, deadline):
        pieces, length, pinged = [], 0, False
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._error("did not answer {} in time".format(kind), "timeout")
            link.settimeout(min(left, self.pulse))
            try:
                chunk = link.recv(1 << 16)
            except socket.timeout:
                if left > self.pulse:
                    if pinged:
                        raise self._error("answers neither {} nor a ping".format(kind), "lost") from None
                    link.sendall(b"[2]" + EOT)
                    pinged = True
                continue
            if not chunk:
                rest = b"".join(pieces).lstrip()
                if rest[:1] not in (b"", b"["):
                    raise self._nonsense(kind, rest)
                raise self._error("closed the connection before it answered {}".format(kind), "lost")
            pinged, length = False, length + len(chunk)
            if length > LONGEST:
                raise self._error("answers {} with more than {} bytes".format(kind, LONGEST), "nonsense")
            pieces.append(chunk)
            if EOT not in chunk:
                continue
            *messages, rest = b"".join(pieces).split(EOT)
            pieces = [rest]
            for message in messages:
                try:
                    items = json.loads(message)
                except (ValueError, RecursionError):
                    items = None
                if not isinstance(items, list) or not items:
                    raise self._nonsense(kind, message)
                yield items

    def _nonsense(self, kind, what):
        shown = what[:80] if isinstance(what, bytes) else str(what)[:80]
        return self._error("answers {} with what is no message: {!r}".format(kind, shown), "nonsense")

    def _error(self, text, code):
        return JobdError("{} at {}:{} {}".format(
            "jobd-master" if self.master else "jobd", self.host, self.port, text), code)


def _number(id):
    return int(id) if -EXACT <= int(id) <= EXACT else str(id)


def _quoted(*names):
    if any(not name or set(name) & set("`%?") for name in names):
        raise ValueError("{!r} is no name of a column or table".format(".".join(names)))
    return ".".join("`{}`".format(name) for name in names)
