# Installs the archive by the commands of docs/install.md, as they stand there.

cat >"$ROOT/tmp/inside.sh" <<'INSIDE'
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
is() { [ "$1" = "$2" ] || { echo "it is '$1', not '$2'" >&2; exit 1; }; }
owner() { stat -c '%U:%G %a' "$1"; }
mode_before=$(owner /usr/share)
cd /packages
sha256sum --check --ignore-missing SHA256SUMS
. /tmp/page.sh
is "$(jobd --version)" 1.0.0
is "$(owner /usr/bin/jobd)" 'root:root 755'
is "$(owner /etc/jobd.conf)" 'root:jobd 640'
is "$(owner /etc/jobd-master.conf)" 'root:jobd 640'
is "$(owner /var/lib/jobd)" 'jobd:jobd 700'
is "$(owner /var/lib/jobd-master)" 'jobd:jobd 700'
is "$(owner /var/log/jobd)" 'jobd:jobd 750'
is "$(owner /run/jobd)" 'root:jobd 1775'
is "$(ls /usr/lib/systemd/system/jobd*.socket | wc -l)" 3
is "$(owner /usr/share)" "$mode_before"
INSIDE
printf '%s\n' "$PAGE" >"$ROOT/tmp/page.sh"
chroot "$ROOT" sh -eux /tmp/inside.sh
echo 'the script has come to its end'
