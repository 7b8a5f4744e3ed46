cd /root
sha256sum --check SHA256SUMS
# docs
# docs
test "$(punctual stats --json | jq .jobs.succeeded)" = 1
test -s /usr/local/share/man/man1/punctual-serve.1
test -s /usr/local/share/doc/punctual/THIRD-PARTY
bash -c '. /usr/local/share/bash-completion/completions/punctual'
grep -q '^ExecStart=/usr/local/bin/punctual ' /usr/local/lib/systemd/system/punctual.service

# As the first process of a PID namespace: orphans are reaped, and a stop signal drains.
mkdir /root/first-process
cd /root/first-process
cat >punctual.toml <<'END'
[handlers.orphan]
shell = "setsid sleep 1000 >/dev/null 2>&1 & sleep 0.2"
END
unshare --pid --fork --kill-child --mount-proc punctual serve >log 2>&1 &
engine=$!
until punctual health --ready; do sleep 0.2; done
punctual enqueue orphan --wait
while grep --silent --no-messages 'State:.Z' /proc/[0-9]*/status; do sleep 0.2; done
first=$(grep -Els '^NSpid:[[:space:]]+[0-9]+[[:space:]]+1$' /proc/[0-9]*/status | cut -d / -f 3)
kill -TERM "$first"
wait "$engine"
