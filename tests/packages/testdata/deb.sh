# Installs the .deb in a Debian that has never seen jobd, starts the worker as its unit would, upgrades
# beside a job that runs, and takes everything away again.

cat >"$ROOT/tmp/inside.sh" <<'INSIDE'
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
# The network namespace has only a loopback, and that is down.
python3 -c 'import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x41))'

# All that there is: paths with owner and mode, and the accounts. Left out is what apt and dpkg note for
# themselves, and what tools keep of an account file from before their last change.
everything() {
  find / -xdev \( -path /proc -o -path /tmp -o -path /packages -o -path /dev -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache \
    -o -path /var/log/apt -o -path /var/log/dpkg.log \) -prune -o -not -type d -not -name 'passwd-' -not -name 'group-' -not -name '*shadow-' \
    -not -name 'sub?id-' -not -name .pwd.lock -printf '%p %u:%g %m\n' -o -type d -printf '%p %u:%g %m\n' | sort
  cat /etc/passwd /etc/group /etc/shadow /etc/gshadow | sort
}
install_package() { apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-confold "$@" </dev/null; }
# What apt calls, without its look at all packages there are: for what comes after the first of each.
put() { dpkg --install --force-confold "$1" </dev/null; }
owner() { stat -c '%U:%G %a' "$1"; }
is() { [ "$1" = "$2" ] || { echo "it is '$1', not '$2'" >&2; exit 1; }; }
as_jobd() { setpriv --reuid jobd --regid jobd --clear-groups -- "$@"; }
# Waits until a command succeeds; what it waits for is another process of this test.
until_done() {
  set +x
  tries=0
  until "$@" 2>/tmp/trouble; do
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || { echo "in two minutes this did not come true: $*" >&2; cat /tmp/trouble /tmp/log >&2; exit 1; }
    sleep 0.1
  done
  set -x
}

first=/packages/jobd_1.0.0-1_amd64.deb
second=/packages/jobd_1.0.0-2_amd64.deb
everything >/tmp/before

# ---- install -------------------------------------------------------------------------------------
install_package $first
is "$(owner /etc/jobd.conf)" 'root:jobd 640'
is "$(owner /etc/jobd-master.conf)" 'root:jobd 640'
is "$(owner /etc/jobd)" 'root:jobd 750'
is "$(owner /var/lib/jobd)" 'jobd:jobd 700'
is "$(owner /var/lib/jobd-master)" 'jobd:jobd 700'
is "$(owner /var/log/jobd)" 'jobd:jobd 750'
is "$(owner /run/jobd)" 'root:jobd 1775'
is "$(ls /usr/lib/systemd/system/jobd*.socket | wc -l)" 3
is "$(getent passwd jobd | cut -d: -f6,7)" /var/lib/jobd:/usr/sbin/nologin
as_jobd cat /etc/jobd.conf >/dev/null
if setpriv --reuid nobody --regid nogroup --clear-groups cat /etc/jobd.conf; then exit 1; fi
for program in jobd jobd-master jobctl; do
  is "$($program --version)" 1.0.0
  $program --version --verbose | grep -Fx "commit: $COMMIT"
  $program --version --verbose | grep -Fx 'date: 2026-11-20T14:00:00Z'
done
for page in man8/jobd.8 man8/jobd-master.8 man5/jobd.conf.5 man1/jobctl.1; do
  zcat /usr/share/man/$page.gz | grep -q '^\.TH '
done
[ ! -e /etc/systemd/system/multi-user.target.wants/jobd.service ]
is "$(dpkg --verify jobd)" ''

# ---- configure, and start as the unit does -------------------------------------------------------
cat >/tmp/jobd.conf <<'END'
; written by the administrator
host = 127.0.0.1
port = 7080
store = sqlite
sqlite_path = /var/lib/jobd/jobs.db
launcher = /usr/local/bin/run-job {id}
[targets]
default = 2
END
cat /tmp/jobd.conf >/etc/jobd.conf
cat >/usr/local/bin/run-job <<'END'
#!/bin/sh
echo "$1" >>/tmp/started
[ "$1" != 1 ] || read -r word </tmp/gate
echo "this was job $1, $word"
END
chmod 755 /usr/local/bin/run-job
mkfifo -m 666 /tmp/gate
touch /tmp/started
chmod 666 /tmp/started

start() {
  unit=/usr/lib/systemd/system/jobd.service
  is "$(sed -n 's/^User=//p' $unit)" jobd
  # shellcheck disable=SC2046 # the words of the command
  STATE_DIRECTORY=/var/lib/jobd setpriv --reuid jobd --regid jobd --clear-groups -- $(sed -n 's/^ExecStart=//p' $unit) </dev/null >>/tmp/log 2>&1 &
  worker=$!
  until_done jobctl status
}
cell() { python3 -c 'import sqlite3, sys; print(sqlite3.connect("/var/lib/jobd/jobs.db").execute("SELECT " + sys.argv[1] + " FROM jobs WHERE id = " + sys.argv[2]).fetchone()[0])' "$1" "$2"; }
insert() { python3 -c 'import sqlite3; c = sqlite3.connect("/var/lib/jobd/jobs.db"); c.execute("INSERT INTO jobs (target, time_created) VALUES (\"default\", unixepoch())"); c.commit()'; jobctl poll; }
ended() { [ "$(cell status "$1")" = done ]; }
tells() { jobctl status --output json | grep -q "\"$1\": *$2"; }

start
tells commit "\"$COMMIT\""

# The master, as its unit starts it, says of which commit it is, too.
cat >/etc/jobd-master.conf <<'END'
host = 127.0.0.1
port = 7081
journal_dir = /var/lib/jobd-master
END
# shellcheck disable=SC2046 # the words of the command
setpriv --reuid jobd --regid jobd --clear-groups -- $(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/jobd-master.service) </dev/null >>/tmp/log 2>&1 &
master=$!
until_done jobctl --master status
jobctl --master status --output json | grep -q "\"commit\": *\"$COMMIT\""
kill $master
wait $master
jobctl journal verify --journal /var/lib/jobd-master
jobctl journal log --journal /var/lib/jobd-master --kind closed | grep -q stopped

insert
until_done grep -qx 1 /tmp/started

# ---- upgrade, with a job that runs, and with a configuration that both sides have changed --------
install_package $second | tee /tmp/upgrade
grep -q 'jobctl restart' /tmp/upgrade
cmp /tmp/jobd.conf /etc/jobd.conf
is "$(owner /etc/jobd.conf)" 'root:jobd 640'
grep -q 'said by the next version' /etc/jobd.conf.dpkg-dist
kill -0 $worker
tells commit "\"$COMMIT\""
jobctl restart
tells commit '"fedcba98fedcba98fedcba98fedcba98fedcba98"'
is "$(cell status 1)" running
insert
until_done ended 2
echo 'let through' >/tmp/gate
until_done ended 1
is "$(cell result 1) $(cell stdout 1)" 'ok this was job 1, let through'
is "$(sort /tmp/started | tr '\n' ' ')" '1 2 '
jobctl journal verify --journal /var/lib/jobd

# ---- remove: configuration and journal stay ------------------------------------------------------
kill $worker
wait $worker
apt-get remove -y jobd
[ ! -e /usr/bin/jobd ]
cmp /tmp/jobd.conf /etc/jobd.conf
[ -n "$(ls /var/lib/jobd)" ]

# ---- and back: the journal goes on where it was --------------------------------------------------
put $second
is "$(owner /etc/jobd.conf)" 'root:jobd 640'
start
jobctl journal show 1 | grep -q done
insert
until_done ended 3
kill $worker
wait $worker

# ---- purge while the account has a process: its account and its journal stay ---------------------
setpriv --reuid jobd --regid jobd --clear-groups -- sleep 1000 &
straggler=$!
straggles() { [ "$(stat -c %U /proc/$straggler)" = jobd ]; }
until_done straggles
dpkg --purge jobd 2>&1 | tee /tmp/purge
grep -q 'processes of the account jobd still run' /tmp/purge
id jobd
[ -n "$(ls /var/lib/jobd)" ]
kill $straggler
wait $straggler || :

# ---- purge: nothing is left ----------------------------------------------------------------------
put $second
mkdir -p /etc/systemd/system/multi-user.target.wants
ln -s /usr/lib/systemd/system/jobd.service /etc/systemd/system/multi-user.target.wants/jobd.service
echo 'host = 127.0.0.1' >/etc/jobd/one.conf
apt-get purge -y jobd
rm -f /usr/local/bin/run-job
everything >/tmp/after
diff -u /tmp/before /tmp/after

# ---- an account and a group that are somebody else's, too: they stay ---------------------------
useradd --create-home --user-group jobd
echo kept >/home/jobd/kept
put $first
is "$(owner /etc/jobd.conf)" 'root:jobd 640'
is "$(owner /var/lib/jobd)" 'jobd:jobd 700'
dpkg --purge jobd 2>&1 | tee /tmp/purge
grep -q 'it was here before the package' /tmp/purge
id jobd
cat /home/jobd/kept
userdel --remove jobd
put $first
useradd --no-create-home --gid jobd colleague
dpkg --purge jobd 2>&1 | tee /tmp/purge
grep -q 'the group jobd stays' /tmp/purge
is "$(id -gn colleague)" jobd
if id jobd; then exit 1; fi
userdel colleague
if getent group jobd; then groupdel jobd; fi
rm -rf /home/jobd /var/mail/jobd /var/mail/colleague /var/spool/mail/jobd
everything >/tmp/after
diff -u /tmp/before /tmp/after

# ---- without systemd's tools: the same account, the same folders ---------------------------------
mkdir /tmp/aside
mv /usr/bin/systemd-sysusers /usr/bin/systemd-tmpfiles /tmp/aside
put $first
is "$(owner /etc/jobd.conf)" 'root:jobd 640'
is "$(owner /var/lib/jobd)" 'jobd:jobd 700'
is "$(owner /var/lib/jobd-master)" 'jobd:jobd 700'
is "$(owner /var/log/jobd)" 'jobd:jobd 750'
is "$(owner /run/jobd)" 'root:jobd 1775'
is "$(ls /usr/lib/systemd/system/jobd*.socket | wc -l)" 3
is "$(getent passwd jobd | cut -d: -f6,7)" /var/lib/jobd:/usr/sbin/nologin
dpkg --purge jobd
mv /tmp/aside/* /usr/bin
everything >/tmp/after
diff -u /tmp/before /tmp/after
INSIDE

COMMIT=$COMMIT chroot "$ROOT" sh -eux /tmp/inside.sh
echo 'the script has come to its end'
