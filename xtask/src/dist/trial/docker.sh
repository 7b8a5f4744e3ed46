#!/bin/sh
# Stands in for a container engine in a trial: it unpacks one image and runs it as its configuration says, with the PID
# and mount namespaces of its own. It knows only the options that docs/install.md uses.
set -eu

STATE=/run/engine

setting() {
    jq --raw-output ".config.$1" "$STATE/config.json"
}

load() {
    mkdir -p "$STATE/image" "$STATE/root"
    tar --extract --file "$1" --directory "$STATE/image"
    cd "$STATE/image"
    for blob in blobs/sha256/*; do
        echo "${blob##*/}  $blob" | sha256sum --check --quiet
    done
    cp "$(jq --raw-output '.[0].Config' manifest.json)" "$STATE/config.json"
    layer=$(jq --raw-output '.[0].Layers[0]' manifest.json)
    test "sha256:$(zcat "$layer" | sha256sum | cut -d ' ' -f 1)" = "$(jq --raw-output '.rootfs.diff_ids[0]' "$STATE/config.json")"
    tar --extract --gzip --numeric-owner --file "$layer" --directory "$STATE/root"
    mkdir "$STATE/root/proc" "$STATE/root/dev"
    mount --bind /dev "$STATE/root/dev"
    # The other way to the same content, for engines that read OCI layouts.
    manifest=$(jq --raw-output '.manifests[0].digest | ltrimstr("sha256:")' index.json)
    test "blobs/sha256/$(jq --raw-output '.layers[0].digest | ltrimstr("sha256:")' "blobs/sha256/$manifest")" = "$layer"
    jq --raw-output '.[0].RepoTags[0]' manifest.json >"$STATE/tag"
}

run() {
    setting 'Env[]' >"$STATE/env"
    while [ $# -gt 0 ]; do
        case "$1" in
        --detach) ;;
        --env)
            echo "$2" >>"$STATE/env"
            shift
            ;;
        --name | --publish | --volume) shift ;;
        --*)
            echo "docker: unknown option $1" >&2
            exit 2
            ;;
        *) break ;;
        esac
        shift
    done
    test "$1" = "$(cat "$STATE/tag")"
    shift
    [ $# -gt 0 ] || eval "set -- $(setting 'Cmd | @sh')"
    eval "set -- $(setting 'Entrypoint | @sh') \"\$@\""
    (
        code=0
        # No variable contains a space.
        env --ignore-environment $(cat "$STATE/env") /usr/bin/unshare --mount --pid --fork --kill-child --mount-proc \
            --root="$STATE/root" --wd="$(setting WorkingDir)" \
            --setgid="$(setting 'User | split(":")[1]')" --setuid="$(setting 'User | split(":")[0]')" -- "$@" || code=$?
        echo "$code" >"$STATE/exit"
    ) >"$STATE/log" 2>&1 &
    # The first process of the container is the child of `unshare`.
    until [ -s "$STATE/pid" ]; do
        for process in /proc/[0-9]*; do
            if grep -Eqs '^NSpid:[[:space:]]+[0-9]+[[:space:]]+1$' "$process/status"; then
                echo "${process##*/}" >"$STATE/pid"
            fi
        done
        sleep 0.1
    done
}

run_in_container() {
    test "$1" = punctual
    shift
    env --ignore-environment $(cat "$STATE/env") /usr/bin/nsenter --target "$(cat "$STATE/pid")" --mount --pid --root --wd \
        --setgid "$(setting 'User | split(":")[1]')" --setuid "$(setting 'User | split(":")[0]')" -- "$@"
}

stop() {
    kill -TERM "$(cat "$STATE/pid")"
    until [ -s "$STATE/exit" ]; do sleep 0.1; done
}

command=$1
shift
case "$command" in
load)
    test "$1" = --input
    load "$2"
    ;;
run) run "$@" ;;
exec) run_in_container "$@" ;;
stop) stop ;;
*)
    echo "docker: unknown command $command" >&2
    exit 2
    ;;
esac
