# Messages on a host without KVM.
. /lab.sh
rmmod kvm_amd && rmmod kvm || wrong "KVM cannot be unloaded"
for act in "haltwise record -o /run/none --duration 1s" "haltwise-lab run idle"; do
    $act >/dev/null 2>/run/said
    code=$?
    [ $code = 3 ] && grep -q '^hint: ' /run/said || wrong "$act without KVM returned $code: $(cat /run/said)"
done
exit $failed
