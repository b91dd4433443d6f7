#!/usr/bin/env python3
"""Verifies a journal of jobd by docs/journal.md alone: nothing here is jobd's own code.

    verify.py [--anchor FILE] FOLDER...        the journal's folder, and its archive's if there is one

It checks numbers, hashes, headers, checkpoints, transitions, times, the head file, anchors, and that retention removed what is
missing; not the job pages, which no event depends on. Exit code: 0 verified, 1 not. It needs Python 3.11,
and python3-zstandard or the program zstd. Of a worker that runs, verify a copy.
"""
import argparse, hashlib, io, json, os, re, shutil, sqlite3, struct, subprocess, sys, tempfile
from datetime import datetime, timedelta

SCHEMA = "3905cc8a7fad0bf1700c75d9ce685deba5527e05fceae575784973460c4dc918"
OVER, UNDER_WAY = {None}, {"accepted", "starting", "running"}
ALLOWED = {"accepted": OVER, "ignored": OVER, "retried": OVER, "planned": OVER, "released": {"accepted", "starting"}, "running": UNDER_WAY, "started": {"starting"},
           "signal": {"running"}, "done": {"starting", "running"}, "requeued": {"starting", "running"},
           "cancelled": UNDER_WAY, "conflict": OVER | UNDER_WAY, "set-aside": OVER | UNDER_WAY, "replanned": OVER | UNDER_WAY}
PLAN = "run_at planned_at attempts max_attempts timeout schedule time_zone"

class Bad(Exception): pass

def need(true, seq, why):
    if not true: raise Bad(f"first bad sequence number: {seq}\n{why}")

def sha(*parts): return hashlib.sha256(b"".join(parts)).digest()

def unzstd(data):
    try:
        import zstandard
        return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True).read()
    except ImportError:
        return subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE, check=True).stdout

def read_sealed(path):
    """The header and the records of a sealed segment."""
    data = open(path, "rb").read()
    need(len(data) >= 184 and sha(data[:-32]) == data[-32:], 0, f"{path}: its bytes are not those that were written")
    magic, size, name, version, number, first, last, *_, end, header, directory, blocks, pages, at, _ = struct.unpack(
        "<II8sQQQQqqqq32sQQQQQ32s", data[-184:])
    need((magic, size, name, version, at) == (0x184D2A50, 176, b"jobdseal", 1, len(data) - 184), 0, f"{path}: no sealed segment")
    records = []
    for place, frame, _, out_frame, _, _, _ in struct.iter_unpack("<QIIQQQq", unzstd(data[directory:at])[:48 * blocks]):
        block, place = io.BytesIO(unzstd(data[place:place + frame])), place + frame
        output = io.BytesIO(unzstd(data[place:place + out_frame]) if out_frame else b"")
        while fixed := block.read(24):
            kind = block.read(*struct.unpack(">I", block.read(4)))
            payload = block.read(*struct.unpack(">I", block.read(4)))
            stdout, stderr = map(output.read, struct.unpack(">II", block.read(8)))
            records.append((*struct.unpack(">qqq", fixed), kind, payload, stdout, stderr, block.read(32)))
    need(records[0][0] == first and records[-1][0::7] == (last, end), first, f"{path}: its events are not those that its end tells of")
    return unzstd(data[:header]), records, 0

def read_database(path):
    """The header, the records and the mirror row of an open segment; no header where a crash came before it was made."""
    with tempfile.TemporaryDirectory() as folder:
        for end in filter(lambda end: os.path.exists(path + end), ("", "-wal")):
            shutil.copy(path + end, folder + "/db" + end)
        db = sqlite3.connect(folder + "/db")
        made = [line for line, in db.execute("SELECT type || '|' || name || '|' || tbl_name || '|' || coalesce(sql, '') FROM sqlite_schema")]
        version, = db.execute("PRAGMA user_version").fetchone()
        if not made and version == 0: return None, [], None
        need(sha("".join(line + "\n" for line in sorted(made)).encode()).hex() == SCHEMA and version == 3, 0, f"{path}: its schema is another")
        need(db.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",), 0, f"{path}: SQLite finds it damaged")
        trunk, free = struct.unpack(">II", open(path, "rb").read(40)[32:])  # versions of SQLite look at them differently
        need(bool(trunk) == bool(free) or os.path.exists(path + "-wal"), 0, f"{path}: its list of free pages is none")
        db.text_factory = bytes
        header, mirror = db.execute("SELECT header FROM segment").fetchone()[0], db.execute("SELECT seq FROM mirror").fetchone()[0]
        plain = lambda b: unzstd(b) if b and b.startswith(b"\x28\xb5\x2f\xfd") else b or b""
        rows = db.execute("SELECT seq, time, job, kind, payload, stdout, stderr, hash FROM records ORDER BY seq").fetchall()
        return header, [(*row[:5], plain(row[5]), plain(row[6]), row[7]) for row in rows], mirror

def canonical(s):
    """The checkpoint of a state: JSON without blanks, fields in their order, and those that are empty left out."""
    some = lambda of, fields, always="": {f: of[f] for f in fields.split() if of.get(f) not in (None, False, 0, "") or f in always.split()}
    c = some(s, "time name open mark server")
    if s["targets"]: c["targets"] = {name: some(s["targets"][name], *["Concurrency Paused"] * 2) for name in sorted(s["targets"])}
    if s["jobs"]: c["jobs"] = [some(job, "id target manual token status attempt runner claimed process lost accepted running cancelled "
                                    "from plan planned_at timeout kill_after ends executor", "id target token") for _, job in sorted(s["jobs"].items())]
    if s["removed"] is not None: c["removed"] = some(s["removed"], "segment seq hash noted")
    text = json.dumps(c, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda m: f"\\u{ord(m[0]):04x}", text).encode()

def parse(checkpoint):
    c = {"targets": {}, "jobs": [], "removed": None, **json.loads(checkpoint)}
    return c | {"jobs": {job["id"]: job for job in c["jobs"]}}

def fold_worker(s, seq, kind, p, ends):
    target, targets = p.get("target"), s["targets"]
    match kind:
        case "opened":
            s |= {"name": p["name"], "open": True, "targets": {t: {"Concurrency": n, "Paused": False} for t, n in (p["targets"] or {}).items()}}
        case "closed": s["open"] = False
        case "paused" | "continued":
            for t in set(p["targets"] or ()) & set(targets): targets[t]["Paused"] = kind == "paused"
        case "target-added": targets[target] = {"Concurrency": p["concurrency"], "Paused": False}
        case "target-removed": targets.pop(target, None)
        case "concurrency-set": targets.setdefault(target, {"Paused": False})["Concurrency"] = p["concurrency"]
        case "marked" | "server": s[{"marked": "mark"}.get(kind, kind)] = p[{"marked": "mark"}.get(kind, kind)]
        case "retention":
            last, before = p["last"], s["removed"] or {}
            here = ends.get(last, (p["seq"], p["hash"]))
            need(last == 0 or here == (p["seq"], p["hash"]), seq, f"segment {last} ended with event {here[0]}, not with {p['seq']}")
            if s["removed"] is None or last > before.get("segment", 0):
                noted = last if s["removed"] is None else before.get("noted")
                s["removed"] = {"segment": last, "seq": p["seq"], "hash": p["hash"], "noted": noted}
        case _: need(kind in ("runner", "requested", "refused", "reloaded", "reapplied", "registered", "left"), seq, f'illegal transition: "{kind}"')

def fold_job(s, seq, time, number, kind, p):
    job = s["jobs"].get(number, {})
    status, token = job.get("status"), kind not in ("accepted", "ignored", "retried", "started", "signal") and p.get("token")
    need(status in ALLOWED.get(kind, ()), seq, f'illegal transition: job {number} is {status or "not under way"}, and "{kind}" cannot follow')
    if job and token and token != job["token"]:
        return need(kind in ("conflict", "set-aside", "replanned"), seq, f'illegal transition: job {number}: "{kind}" is about another claim')
    match kind:
        case "accepted":
            plan = p.get("plan")
            s["jobs"][number] = {"id": number, "target": p["target"], "manual": p.get("manual"), "token": p["token"], "status": kind, "accepted": time,
                                 "attempt": (plan or {}).get("attempts", 0), "from": p.get("from"), "planned_at": p.get("planned_at"),
                                 "plan": plan and {f: plan[f] for f in PLAN.split() if plan.get(f)}}
        case "running":
            again = status == "starting" or status == "running" and "address" in job["process"]
            legal = {job.get("attempt", 0) + 1} | ({job.get("attempt", 0)} if again else set())
            need(p["attempt"] in legal, seq, f"illegal transition: job {number}: wrong attempt number")
            job |= {"status": "starting", "attempt": p["attempt"], "runner": p.get("runner"), "claimed": p.get("claimed"), "running": time, "process": None,
                    "timeout": p.get("timeout"), "kill_after": p.get("kill_after"), "ends": False, "executor": p.get("executor")}
        case "started": job |= {"status": "running", "process": {f: p[f] for f in ("pid", "start_time", "boot_id", "address") if p.get(f) or f != "address"}}
        case "signal": job["ends"] = job.get("ends") or p.get("ends")
        case "cancelled":
            need(status != ("accepted" if p.get("runs") else "running"), seq, f'illegal transition: job {number} is {status}, and "{kind}" cannot follow')
            if not p.get("runs"): return s["jobs"].pop(number)
            job["cancelled"] = {"time": time, "by": p["by"], "grace": p.get("grace", 0)}
            if p.get("schedule"):
                job["cancelled"]["schedule"] = True
        case "conflict" if p.get("wanted") in ("ignored", "retried"): pass
        case "conflict" if status == "running": job["lost"] = True
        case "released" | "done" | "conflict": s["jobs"].pop(number, None)

def find(folders):
    """The segments by number, a sealed file rather than a database, what the head file says, and whether a worker worked here."""
    parts, heads, worked = {}, [], False
    for path in (os.path.join(folder, name) for folder in folders for name in sorted(os.listdir(folder))):
        name = os.path.basename(path)
        if m := re.fullmatch(r"segment-(\d{8,})\.(db|zst)", name):
            if int(m[1]) not in parts or m[2] == "zst": parts[int(m[1])] = path
        worked = worked or name in ("lock", "clock")
        if name == "head" and os.path.getsize(path) > 0:
            m = re.fullmatch(rb"jobd-head (\d{20}) ([0-9a-f]{64})\n", open(path, "rb").read())
            need(m, 0, "the head file is not readable")
            heads.append((int(m[1]), m[2].decode()))
    return sorted(parts.items()), heads, worked

def verify(folders, anchors):
    parts, heads, worked = find(folders)
    need(parts or not heads, 1, "there is no segment")
    state, seq, last, ends, seen, wanted = parse(b"{}"), 0, bytes(32), {}, {}, {n for n, _ in heads + anchors}
    oldest, before, live, mirror = (1, 1, last), None, False, 0
    for number, path in parts:
        header, records, noted = (read_sealed if path.endswith(".zst") else read_database)(path)
        if header is None and number == parts[-1][0]: break
        (named, first), previous, checkpoint = struct.unpack(">QQ", header[:16]), header[16:48], header[48:]
        need(named == number, first, f"{path} holds segment {named}")
        if before is None:  # the oldest that is there
            need(number > 1 or first == 1 and checkpoint in (b"{}", b'{"removed":{}}'), 1, "segment 1 begins with something")
            oldest, seq, last, state = (number, first, previous), first - 1, previous if number > 1 else last, parse(checkpoint)
            seen[seq] = last.hex()
        need(before in (None, number - 1), seq + 1, f"segment {number - 1} is missing")
        need((first, previous) == (seq + 1, last), min(first, seq + 1), f"segment {number} does not follow the one before it")
        need(canonical(state) == checkpoint, first, f"the checkpoint of segment {number} disagrees with the events before it")
        ends[number - 1], link, before, live, mirror = (seq, last.hex()), sha(header), number, path.endswith(".db"), noted
        for at, time, job, kind, payload, stdout, stderr, last in records:
            seq += 1
            need(at == seq, min(at, seq), f"it is missing; event {at} follows")
            link = sha(link, struct.pack(">qqq", seq, time, job), *(struct.pack(">I", len(b)) + b for b in (kind, payload, stdout, stderr)))
            need(link == last, seq, "its hash does not match its content and the event before it")
            need(time >= state.get("time", 0), seq, "time runs backwards")
            state["time"] = time
            if seq in wanted: seen[seq] = last.hex()
            try:
                if job: fold_job(state, seq, time, job, kind.decode(), json.loads(payload))
                else: fold_worker(state, seq, kind.decode(), json.loads(payload), ends)
            except (ValueError, LookupError, TypeError, AttributeError) as e: need(False, seq, f"its payload is not readable: {e!r}")
    for n, h in sorted(heads + anchors):
        need(n <= seq, seq + 1, f"the journal ends with event {seq}, and event {n} is known")
        need(n < oldest[1] - 1 or n == 0 or seen[n] == h, n, "another event is known under this number")
    need(live or not (heads or worked), seq + 1, "the newest segment is missing: all others are sealed")
    need(heads or not live or seq == 0, 0, "the head file is missing")
    need(mirror <= seq, seq + 1, f"the journal ends with event {seq}, and the table shows event {mirror}")
    begins(*oldest, state["removed"])
    return oldest[1], seq, state, last

def begins(number, first, previous, removed):
    """Retention has removed what is missing at the beginning. Versions that journal no removal leave no "removed"."""
    if removed is None: return
    gone = removed.get("segment", 0)
    need(number <= gone + 1, removed.get("seq", 0) + 1, f"segments before {number} are missing, retention removed those up to {gone}")
    follows = number in range(2, gone + 1) or number == 1 or (first - 1, previous.hex()) == (removed["seq"], removed["hash"])
    need(follows, first, f"segment {number} does not follow what retention has removed")

def main():
    args = argparse.ArgumentParser(description="verify a journal of jobd")
    args.add_argument("--anchor", metavar="FILE", help="lines with a sequence number and a hash")
    args.add_argument("folder", nargs="+")
    args = args.parse_args()
    try:
        lines = [line.split() for line in open(args.anchor)] if args.anchor else []
        first, seq, state, last = verify(args.folder, [(int(l[0]), l[1]) for l in lines if l and l[0][0] != "#"])
    except (Bad, OSError, ValueError, LookupError, TypeError, struct.error, sqlite3.Error, subprocess.SubprocessError) as e:
        sys.exit(f"{e if isinstance(e, Bad) else repr(e)}")
    time = datetime(1970, 1, 1) + timedelta(microseconds=state.get("time", 0))
    print(f"verified: {seq - first + 1} events, the last of {time:%Y-%m-%d %H:%M:%S.%f} with hash {last.hex()}")

if __name__ == "__main__":
    main()
