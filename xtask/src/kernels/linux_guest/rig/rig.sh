# Functions of the rig, beside those of host.sh. A VM runs only while it is measured.
kvm=/sys/module/kvm/parameters
echo 1 >/proc/sys/net/ipv4/ip_forward
if [ -d /own ]; then
    rmmod kvm_amd kvm
    for module in kvm kvm-amd; do insmod "/own/$module.ko"; done
fi

# Sets parameters of KVM, each NAME=VALUE; the others get the kernel's defaults.
setting() {
    for parameter in halt_poll_ns halt_poll_ns_grow halt_poll_ns_grow_start halt_poll_ns_shrink; do
        cat "/run/$parameter" >"$kvm/$parameter"
    done
    for pair in "$@"; do
        echo "${pair#*=}" >"$kvm/${pair%%=*}" || {
            say "KVM does not take $pair"
            exit 1
        }
    done
}

# Starts VMs that stand still until they are measured.
vms= patience=60
begin() { # for each VM: its name, options of its kernel, options of QEMU
    begun=$(seconds)
    while [ $# -gt 0 ]; do
        launch "$1" "$2" qemu-system-x86_64 "${memory:-256}" initramfs "$3"
        vms="$vms $1"
        shift 3
    done
    for name in $vms; do
        wait_for "$name"
        qmp "$name" stop >/dev/null
    done
}

# Ends all VMs.
over() {
    touch /run/over
    for name in $vms; do qmp "$name" quit >/dev/null; done
    wait
}

# Voluntary and involuntary context switches of a VM's vCPU threads.
switches() { # VM
    for task in /proc/"$(cat "/run/$1.pid")"/task/*; do
        case $(cat "$task/comm") in
        CPU*KVM) grep ctxt "$task/status" ;;
        esac
    done
}

# A disk without a file that completes each request after a latency in nanoseconds.
answers() { echo "-blockdev driver=null-co,node-name=$1,size=67108864,read-zeroes=on,latency-ns=$2"; }

# A second network of a VM, for a NIC that QEMU emulates.
nic() { # VM
    number=${1#web}
    tunctl -t "nic$number" >/dev/null
    ip addr add "10.8.$number.1/24" dev "nic$number"
    ip link set "nic$number" address 52:54:00:00:00:01
    ip link set "nic$number" up
    arp -s "10.8.$number.2" 52:54:00:00:00:03
}

# Limits the CPU time of each VM.
quota() { # percent, or `max`
    echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
    for name in $vms; do
        group=/sys/fs/cgroup/$name
        mkdir -p "$group"
        cat "/run/$name.pid" >"$group/cgroup.procs"
        case $1 in
        max) echo max ;;
        *) echo "${1}000 100000" ;;
        esac >"$group/cpu.max" || exit 1
    done
}

# Pins a VM's vCPU threads to a mask of CPUs.
pin() { # VM, CPUs
    for task in /proc/"$(cat "/run/$1.pid")"/task/*; do
        case $(cat "$task/comm") in
        CPU*KVM) taskset -p "$2" "${task##*/}" >/dev/null ;;
        esac
    done
}

# Runs a command in a guest between two measurements.
inside() { # VM, command
    qmp "$1" cont >/dev/null
    ! guest "$1" "($2) || echo refused" | grep refused || {
        say "$1 refuses $2"
        exit 1
    }
    qmp "$1" stop >/dev/null
}

counted='cat /proc/interrupts /proc/stat'
before() { # folder, VM
    counters "$2" >"/out/$1/$2.kvm.before"
    switches "$2" >"/out/$1/$2.threads.before"
}

after() { # folder, VM
    counters "$2" >"/out/$1/$2.kvm.after"
    switches "$2" >"/out/$1/$2.threads.after"
    qmp "$2" cont >/dev/null
    for when in before after; do guest "$2" "cat /run/$when" >"/out/$1/$2.inside.$when"; done
    qmp "$2" stop >/dev/null
}

# Records while loads run, each in its VM, or on the host itself.
measured() { # folder, and for each load: VM or `host`, command
    dir=$1
    shift
    mkdir -p "/out/$dir"
    part=$(seconds)
    : >/run/load.sh
    measured_vms=
    for name in $vms; do
        case " $* " in *" $name "*) ;; *) continue ;; esac
        measured_vms="$measured_vms $name"
        before "$dir" "$name"
        echo "guest-tool qmp /run/$name.qmp cont >/dev/null" >>/run/load.sh
    done
    grep ctxt /proc/stat >"/out/$dir/host.before"
    while [ $# -gt 0 ]; do
        if [ "$1" = host ]; then
            echo "(($2) || echo load failed) >/out/$dir/host.said 2>&1 &"
        else
            echo "echo '$counted >/run/before; (($2) || echo load failed) 2>&1; $counted >/run/after' | nc $(address_of "$1") 7 >/out/$dir/$1.said 2>&1 &"
        fi >>/run/load.sh
        shift 2
    done
    echo wait >>/run/load.sh
    for name in $measured_vms; do echo "guest-tool qmp /run/$name.qmp stop >/dev/null" >>/run/load.sh; done
    haltwise record --source bpf --exits=msr,pio,mmio -o "/out/$dir/capture" -- \
        timeout $((60 * $(cat /run/slower))) sh /run/load.sh >/run/said 2>&1 || {
        say "$dir: record returned $?: $(cat /run/said)"
        exit 75 # as STOOD_STILL: most often a VM does not answer
    }
    grep ctxt /proc/stat >"/out/$dir/host.after"
    grep 'load failed' "/out/$dir"/*.said && {
        say "$dir: a load failed: $(cat "/out/$dir"/*.said)"
        exit 1
    }
    for name in $measured_vms; do after "$dir" "$name"; done
    say "$dir: $(($(seconds) - part)) s"
}
