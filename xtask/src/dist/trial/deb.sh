cd /root
# docs
test "$(readlink -f /etc/systemd/system/multi-user.target.wants/punctual.service)" = \
    "$(readlink -f /usr/lib/systemd/system/punctual.service)"
test "$(stat --format '%a %U:%G' /etc/default/punctual)" = "640 root:punctual"
test "$(stat --format '%a %U:%G' /var/lib/punctual)" = "750 punctual:punctual"
zcat /usr/share/man/man1/punctual-serve.1.gz | grep --silent PUNCTUAL_WORKERS

# There is no systemd here: the service starts as its unit says.
setting() {
    sed --quiet "s/^$1=//p" /usr/lib/systemd/system/punctual.service
}
cd "$(setting WorkingDirectory)"
# The words of the command are separate arguments.
setpriv --reuid "$(setting User)" --regid "$(setting Group)" --init-groups \
    env "$(setting Environment)" $(setting ExecStart) &
service=$!
until punctual health --ready; do sleep 0.2; done
cd /root
# docs
succeeded() {
    runuser -u punctual -- punctual stats --json | jq .jobs.succeeded
}
test "$(succeeded)" = 1
kill -TERM "$service"
wait "$service"

# An upgrade keeps the administrator's changes, the data and the modes.
echo '# changed' >>/etc/punctual/punctual.toml
dpkg-deb --raw-extract punctual_*.deb next
sed --in-place 's/^Version: .*/&+next/' next/DEBIAN/control
dpkg-deb --root-owner-group --build next next.deb
apt-get install --yes ./next.deb
grep --silent '# changed' /etc/punctual/punctual.toml
test "$(stat --format '%a %U:%G' /etc/default/punctual)" = "640 root:punctual"
test "$(succeeded)" = 1

# The choice of an administrator who disables the service, as systemctl does, is kept, too.
rm /etc/systemd/system/multi-user.target.wants/punctual.service
apt-get install --yes --reinstall ./next.deb
test ! -e /etc/systemd/system/multi-user.target.wants/punctual.service

# A removal keeps configuration and data; a purge deletes both.
apt-get remove --yes punctual
test ! -e /usr/bin/punctual
test -f /etc/punctual/punctual.toml
test -f /var/lib/punctual/punctual.db
apt-get purge --yes punctual
for path in /etc/punctual /etc/default/punctual /var/lib/punctual /usr/share/doc/punctual; do
    test ! -e "$path"
done
