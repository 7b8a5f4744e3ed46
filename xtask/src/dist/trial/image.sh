cd /root
trap 'cat /run/engine/log || true' EXIT
# docs
# The image's own check of its health.
check=$(jq --raw-output '.config.Healthcheck.Test[1:] | @sh' /run/engine/config.json)
until eval "docker exec punctual $check"; do sleep 0.2; done
# docs
test "$(docker exec punctual punctual stats --json | jq .jobs.succeeded)" = 1
test "$(stat --format %u /run/engine/root/var/lib/punctual/punctual.db)" = 10001
# docs
# It has drained.
test "$(cat /run/engine/exit)" = 0
trap - EXIT
