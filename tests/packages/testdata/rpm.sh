# Installs the .rpm with rpm's own tools, beside Debian's files, whose account tools its scripts use.

package=$(echo "$PACKAGES"/*.x86_64.rpm)
is() { [ "$1" = "$2" ] || { echo "it is '$1', not '$2'" >&2; exit 1; }; }
in_root() { rpm --root "$ROOT" "$@"; }
owner() { chroot "$ROOT" stat -c '%U:%G %a' "$1"; }

rpm -K --nosignature "$package"
is "$(rpm -qp --nosignature --configfiles "$package" | tr '\n' ' ')" '/etc/jobd-master.conf /etc/jobd.conf '
for path in /usr/bin/jobd /usr/lib/systemd/system/jobd@.service /usr/lib/sysusers.d/jobd.conf /usr/lib/tmpfiles.d/jobd.conf \
  /usr/share/man/man1/jobctl.1.gz /usr/share/zsh/site-functions/_jobctl /usr/share/doc/jobd/sbom.spdx.json; do
  rpm -qpl --nosignature "$package" | grep -Fx "$path"
done

in_root --initdb
in_root -i --nodeps --nosignature "$package"
is "$(in_root -q jobd)" jobd-1.0.0-1.x86_64
is "$(in_root -V --nodeps jobd)" ''
is "$(owner /etc/jobd.conf)" 'root:jobd 640'
is "$(owner /etc/jobd)" 'root:jobd 750'
is "$(owner /var/lib/jobd)" 'jobd:jobd 700'
is "$(owner /var/lib/jobd-master)" 'jobd:jobd 700'
is "$(chroot "$ROOT" jobd --version)" 1.0.0

# What the administrator changes is seen, and kept.
echo '; written by the administrator' >>"$ROOT/etc/jobd.conf"
in_root -V --nodeps jobd | grep '^S.5.*c /etc/jobd.conf$'
in_root -U --nodeps --nosignature --replacepkgs "$package"
tail -n 1 "$ROOT/etc/jobd.conf" | grep -Fx '; written by the administrator'
in_root -e --nodeps jobd
[ ! -e "$ROOT/usr/bin/jobd" ]
tail -n 1 "$ROOT/etc/jobd.conf.rpmsave" | grep -Fx '; written by the administrator'
echo 'the script has come to its end'
