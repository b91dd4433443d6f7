# The account has to be there before files are laid down that belong to its group.
getent group jobd >/dev/null || groupadd --system jobd
getent passwd jobd >/dev/null ||
  useradd --system --gid jobd --home-dir /var/lib/jobd --no-create-home --comment jobd --shell /usr/sbin/nologin jobd
exit 0
