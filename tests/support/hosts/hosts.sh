#!/usr/bin/env bash
# Several hosts on one machine, for tests: each has its own network, processes, host name, boot id, home, TMPDIR, /dev/shm, host key and sshd.
#   hosts.sh probe                  whether this machine lets us; says why not
#   hosts.sh up N                   make N hosts: namespaces ${P}1..${P}N on a bridge, $NET.(10+i); this machine is $NET.1
#   hosts.sh down                   end everything that `up` started, remove everything
#   hosts.sh boot I | power-off I   start a host (with a new boot id) | end all its processes at once
#   hosts.sh restart-sshd I         after its sshd_config or host key changed; connections that are open stay
#   hosts.sh host-key I             give host I another host key
#   hosts.sh write-config I         write host I's sshd_config anew from its `extra` file
# Shared between hosts: the file system, but for home (one virtual environment serves all) and what HOME_SIZE makes small;
# SHARED_HOME=1 gives all hosts one home, as NFS would. The clock is shared: libfaketime shifts it for what sshd starts.
# Needs root, iproute2, openssh-server. Told by the environment: HOSTS_DIR, HOSTS_PREFIX, HOSTS_NET.
set -euo pipefail
D=${HOSTS_DIR:?} P=${HOSTS_PREFIX:?} NET=${HOSTS_NET:?}
BR=${P}br
ip4() { echo "$NET.$((10 + $1))"; }

# Runs as process 1 of a host: its mounts, its name, its sshd; bash reaps what is orphaned.
host_main() {
  local i=$1 h=$D/host$1 home=$D/host$1/home pid rest
  read -r pid rest </proc/self/stat # /proc is still the outside's: this is our process number there
  echo "$pid" >"$h/init.pid"
  mount --make-rprivate /
  mount -t proc proc /proc
  mount --bind "$h/boot_id" /proc/sys/kernel/random/boot_id
  [[ -z ${HOME_SIZE:-} ]] || mount -t tmpfs -o "size=$HOME_SIZE,mode=700" tmpfs "$home"
  [[ ${SHARED_HOME:-0} == 0 ]] || home=$D/shared-home
  sed "s#^root:.*#root:x:0:0:root:$home:/bin/bash#" /etc/passwd >"$h/passwd"
  mount --bind "$h/passwd" /etc/passwd
  mount --bind "$h/shadow" /etc/shadow
  mount -t tmpfs tmpfs /dev/shm
  hostname "$P$i"
  /usr/sbin/sshd -f "$h/sshd_config" -E "$h/sshd.log"
  trap 'exit 0' TERM
  while :; do sleep 86400 & wait $! || true; done
}

boot() {
  local i=$1 h=$D/host$1
  cat /proc/sys/kernel/random/uuid >"$h/boot_id"
  ip netns exec "$P$i" unshare --uts --ipc --pid --fork --mount --kill-child "$0" host-main "$i" </dev/null >"$h/init.log" 2>&1 &
  disown
}

await_sshd() {
  local i=$1
  for _ in $(seq 200); do
    (exec 3<>"/dev/tcp/$(ip4 "$i")/22") 2>/dev/null && return
    sleep 0.05
  done
  echo "the sshd of host $i did not start within 10 s: $(cat "$D/host$i/init.log" "$D/host$i/sshd.log" 2>/dev/null | tail -5)" >&2
  return 1
}

# Later lines do not override earlier ones in sshd_config: what is asked for comes first.
write_config() {
  local i=$1 h=$D/host$1
  cat "$h/extra" - >"$h/sshd_config" <<C
Port 22
ListenAddress $(ip4 "$i")
HostKey $h/host_key
AuthorizedKeysFile $h/authorized_keys
PidFile $h/sshd.pid
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
SetEnv TMPDIR=$h/tmp
PrintMotd no
PrintLastLog no
LogLevel VERBOSE
Subsystem sftp internal-sftp
MaxStartups 200
MaxSessions 100
C
}

restart_sshd() {
  local h=$D/host$1
  # shellcheck disable=SC2016 # for the host's shell
  nsenter -t "$(cat "$h/init.pid")" --mount --uts --ipc --net --pid -- sh -c '
    pid=$(cat "$1/sshd.pid") && kill "$pid"
    for _ in $(seq 200); do kill -0 "$pid" 2>/dev/null || break; sleep 0.02; done
    exec /usr/sbin/sshd -f "$1/sshd_config" -E "$1/sshd.log"' sh "$h"
}

host_key() {
  local i=$1 h=$D/host$1
  rm -f "$h/host_key" "$h/host_key.pub"
  ssh-keygen -q -t ed25519 -N '' -f "$h/host_key" -C "$P$i"
}

known_hosts() {
  local h i
  for h in "$D"/host*; do
    i=${h##*/host}
    echo "$(ip4 "$i") $(cut -d' ' -f1,2 "$h/host_key.pub")"
  done >"$D/known_hosts"
}

make_host() {
  local i=$1 n=$2 ns=$P$1 h=$D/host$1 j
  mkdir -p "$h/home" "$h/tmp"
  : >"$h/extra"
  sed 's/^root:[^:]*:/root:*:/' /etc/shadow >"$h/shadow" && chmod 600 "$h/shadow"
  cp "$D/client_key.pub" "$h/authorized_keys" && chmod 600 "$h/authorized_keys"
  host_key "$i"
  write_config "$i"
  ip netns add "$ns"
  ip link add "$P-v$i" type veth peer name eth0 netns "$ns"
  ip link set "$P-v$i" master "$BR" up
  ip -n "$ns" addr add "$(ip4 "$i")/24" dev eth0
  ip -n "$ns" link set lo up && ip -n "$ns" link set eth0 up
  ip -n "$ns" route add default via "$NET.1"
  # names: hosts file only, or every unknown name hangs for seconds (`ip netns exec` binds these over /etc)
  mkdir -p "/etc/netns/$ns"
  { echo "127.0.0.1 localhost" && for j in $(seq "$n"); do echo "$(ip4 "$j") $P$j"; done; } >"/etc/netns/$ns/hosts"
  echo "hosts: files" >"/etc/netns/$ns/nsswitch.conf"
  echo "nameserver 127.0.0.1" >"/etc/netns/$ns/resolv.conf"
}

up() {
  local n=$1 i
  mkdir -p "$D/shared-home" && chmod 700 "$D"
  ssh-keygen -q -t ed25519 -N '' -f "$D/client_key" -C "$P-test"
  mkdir -p /run/sshd && chmod 755 /run/sshd # sshd's own folder, absent where no init made it
  ip link add "$BR" type bridge && ip addr add "$NET.1/24" dev "$BR" && ip link set "$BR" up
  for i in $(seq "$n"); do
    make_host "$i" "$n"
    boot "$i"
  done
  known_hosts
  for i in $(seq "$n"); do await_sshd "$i"; done
}

end_host() {
  local pids
  for _ in $(seq 100); do
    pids=$(ip netns pids "$P$1" || true) # every process in the namespace is ours
    [[ -n $pids ]] || return 0
    # shellcheck disable=SC2086 # one word a process
    kill -9 $pids 2>/dev/null || true
    sleep 0.05
  done
  echo "host $1 still has processes: $pids" >&2
  return 1
}

down() {
  local ns l
  for ns in $(ip netns list | awk '{print $1}' | grep -E "^$P[0-9]+$" || true); do
    end_host "${ns#"$P"}"
    ip netns del "$ns" && rm -rf "/etc/netns/$ns"
  done
  for l in $(ip -o link show type veth 2>/dev/null | awk -F': ' '{print $2}' | cut -d@ -f1 | grep -E "^$P-v[0-9]+$" || true); do
    ip link del "$l" 2>/dev/null || true
  done
  ip link del "$BR" 2>/dev/null || true
}

probe() {
  ip netns add "${P}probe" && ip netns del "${P}probe"
  ip link add "${P}prb" type bridge && ip link del "${P}prb"
  unshare --net --uts --ipc --pid --fork --mount mount -t tmpfs tmpfs /mnt
}

case ${1:-} in
  probe) probe ;;
  up) up "$2" ;;
  down) down ;;
  boot) boot "$2" && await_sshd "$2" ;;
  power-off) end_host "$2" ;;
  write-config) write_config "$2" ;;
  restart-sshd) restart_sshd "$2" && await_sshd "$2" ;;
  host-key) host_key "$2" ;;
  host-main) host_main "$2" ;;
  *) sed -n '2,13p' "$0" && exit 2 ;;
esac
