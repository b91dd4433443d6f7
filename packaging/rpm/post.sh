# Enables nothing, starts nothing and restarts nothing: the example configuration has to be filled in
# first, and on an upgrade jobs may be running.
if command -v systemd-tmpfiles >/dev/null; then
  systemd-tmpfiles --create jobd.conf
else
  install -d -m 0700 -o jobd -g jobd /var/lib/jobd /var/lib/jobd-master
  install -d -m 0750 -o jobd -g jobd /var/log/jobd
  install -d -m 1775 -o root -g jobd /run/jobd
fi
if [ -d /run/systemd/system ]; then
  systemctl --system daemon-reload >/dev/null || :
fi
if [ "$1" -gt 1 ]; then
  echo "jobd: what runs goes on as the former version until it is restarted, a worker without a break in its jobs by:"
  echo "jobd:   jobctl restart      the master: systemctl restart jobd-master"
fi
exit 0
