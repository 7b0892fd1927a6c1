//! Machine settings in QEMU's command line. libvirt writes options as JSON, users as `NAME=VALUE,…`.

use haltwise_core::vmm::Machine;

use super::arguments::Arguments;

pub(super) fn of(arguments: &Arguments) -> Machine {
    let values = |names: &'static [&'static str]| names.iter().flat_map(|name| arguments.all(name));
    let any = |names: &'static [&'static str], texts: &[&str]| {
        values(names).any(|value| texts.iter().any(|text| value.contains(text)))
    };
    let machines = values(&["-machine", "-M", "--machine"]).flat_map(|it| it.split(','));
    let hpet = machines
        .filter_map(|part| match part.strip_prefix("hpet=")? {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        })
        .last();
    let without = arguments.has("-no-hpet").then_some(false);
    let iothreads = values(&["-object"])
        .filter(|it| it.starts_with("iothread,") || it.contains("\"qom-type\":\"iothread\""));
    Machine {
        hpet: hpet.or(without),
        no_ioeventfd: any(&["-device"], &["ioeventfd=off", "\"ioeventfd\":false"]),
        iothreads: u32::try_from(iothreads.count()).unwrap_or(u32::MAX),
        vhost: any(
            &["-netdev"],
            &["vhost=on", "\"vhost\":true", "vhost-user", "vhost-vdpa"],
        ),
        huge_pages: any(
            &["-object", "-mem-path"],
            &["hugetlb=on", "\"hugetlb\":true", "hugepages", "hugetlbfs"],
        ),
        cpu_pm: any(&["-overcommit"], &["cpu-pm=on"]),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn said(words: &str) -> Machine {
        let bytes: Vec<u8> = words
            .split(' ')
            .flat_map(|word| word.bytes().chain([0]))
            .collect();
        of(&Arguments::parse(&bytes))
    }

    #[test]
    fn both_ways_to_write_options_are_read() {
        let all = Machine {
            hpet: Some(false),
            no_ioeventfd: true,
            iothreads: 1,
            vhost: true,
            huge_pages: true,
            cpu_pm: true,
        };
        let by_hand = "qemu -machine q35,accel=kvm,hpet=off -device virtio-blk-pci,drive=d,ioeventfd=off \
                       -object iothread,id=io1 -netdev tap,id=n,vhost=on \
                       -object memory-backend-file,id=m,size=1G,mem-path=/dev/hugepages -overcommit cpu-pm=on";
        let by_libvirt = "qemu -machine pc-q35-8.2,usb=off,hpet=off \
                          -device {\"driver\":\"virtio-blk-pci\",\"ioeventfd\":false} \
                          -object {\"qom-type\":\"iothread\",\"id\":\"iothread1\"} \
                          -netdev {\"type\":\"tap\",\"vhost\":true,\"id\":\"hostnet0\"} \
                          -object {\"qom-type\":\"memory-backend-memfd\",\"hugetlb\":true} \
                          -overcommit mem-lock=off,cpu-pm=on";
        assert_eq!(said(by_hand), all);
        assert_eq!(said(by_libvirt), all);
    }

    #[test]
    fn what_is_not_said_is_the_default() {
        assert_eq!(
            said("qemu -m 512 -machine q35 -device virtio-net-pci"),
            Machine::default()
        );
        assert_eq!(said("qemu -no-hpet").hpet, Some(false));
        assert_eq!(said("qemu -M pc,hpet=off -M pc,hpet=on").hpet, Some(true));
        assert_eq!(said("qemu -machine pc,hpet=maybe").hpet, None);
    }
}
