# Stops the daemons where the package is erased; on an upgrade they go on.
if [ "$1" -eq 0 ] && [ -d /run/systemd/system ]; then
  systemctl --no-reload disable --now jobd.service jobd-master.service >/dev/null 2>&1 || :
  systemctl stop 'jobd@*.service' >/dev/null 2>&1 || :
fi
exit 0
