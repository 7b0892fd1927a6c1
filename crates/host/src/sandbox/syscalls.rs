//! Lists of system calls, as a filter that the kernel holds to (seccomp).
//!
//! Where there is no filter for an architecture, or the kernel was built without them, there is none: rights
//! and limits still hold.

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
mod filter {
    //! No filter.

    use std::io;

    pub(in super::super) fn reader() -> io::Result<()> {
        Ok(())
    }

    pub(in super::super) fn timer() -> io::Result<()> {
        Ok(())
    }

    pub(in super::super) fn recorder(
        _may_start: bool,
        _may_ask: bool,
        _may_serve: bool,
    ) -> io::Result<()> {
        Ok(())
    }
}

pub(super) use filter::{reader, recorder, timer};

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
mod filter {
    //! The lists.

    use std::collections::BTreeMap;
    use std::io;

    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch,
    };

    /// Reads, memory, time, the end of a process (`exit_group`) and of a handler (`rt_sigreturn`).
    const READER: [libc::c_long; 22] = [
        libc::SYS_read,
        libc::SYS_pread64,
        libc::SYS_write,
        libc::SYS_close,
        libc::SYS_fstat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_lseek,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_brk,
        libc::SYS_madvise,
        libc::SYS_futex,
        libc::SYS_getrandom,
        libc::SYS_clock_gettime,
        libc::SYS_sched_yield,
        libc::SYS_restart_syscall,
        libc::SYS_sigaltstack,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];

    const WRITES: libc::c_int =
        libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND | libc::O_TMPFILE;

    /// Flag that `O_TMPFILE` has beside its own bit: opening a directory makes nothing.
    const HARMLESS: libc::c_int = libc::O_DIRECTORY;

    /// System calls allowed to a process that only reads and ends.
    const TIMER: [libc::c_long; 9] = [
        libc::SYS_read,
        libc::SYS_close,
        libc::SYS_munmap,
        libc::SYS_futex,
        libc::SYS_sigaltstack,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];

    const ENABLE_STATS: libc::c_int = 32;

    /// Calls that no recorder makes once it is attached: it neither changes the machine nor its own user, nor writes into
    /// other processes, nor opens network connections.
    const NEVER: [libc::c_long; 61] = [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_kcmp,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_reboot,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_move_mount,
        libc::SYS_mount_setattr,
        libc::SYS_open_tree,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_setns,
        libc::SYS_unshare,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_mknodat,
        libc::SYS_open_by_handle_at,
        libc::SYS_fanotify_init,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_clock_adjtime,
        libc::SYS_adjtimex,
        libc::SYS_syslog,
        libc::SYS_personality,
        libc::SYS_vhangup,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_keyctl,
        libc::SYS_setuid,
        libc::SYS_setgid,
        libc::SYS_setreuid,
        libc::SYS_setregid,
        libc::SYS_setresuid,
        libc::SYS_setresgid,
        libc::SYS_setfsuid,
        libc::SYS_setfsgid,
        libc::SYS_setgroups,
        libc::SYS_userfaultfd,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_socket,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_msgget,
        libc::SYS_semget,
        libc::SYS_shmget,
    ];

    /// The bit of a call by x32, a second way into most calls of x86-64 (`arch/x86/include/uapi/asm/unistd.h`).
    #[cfg(target_arch = "x86_64")]
    const X32: libc::c_long = 0x4000_0000;

    /// Calls that have other numbers by x32: `execve`, `ptrace`, `kexec_load`, `process_vm_readv`, `process_vm_writev` and
    /// `execveat` (`arch/x86/entry/syscalls/syscall_64.tbl`).
    #[cfg(target_arch = "x86_64")]
    const OF_X32: [libc::c_long; 6] = [520, 521, 528, 539, 540, 545];

    #[cfg(target_arch = "x86_64")]
    fn other_ways(rules: &mut BTreeMap<i64, Vec<SeccompRule>>) {
        let same: Vec<_> = rules.keys().copied().chain(OF_X32).collect();
        rules.extend(same.into_iter().map(|call| (call | X32, Vec::new())));
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn other_ways(_: &mut BTreeMap<i64, Vec<SeccompRule>>) {}

    pub(in super::super) fn recorder(
        may_start: bool,
        may_ask: bool,
        may_serve: bool,
    ) -> io::Result<()> {
        let mut rules = listed(&NEVER);
        if !may_ask {
            rules.extend(listed(&[libc::SYS_socketpair, libc::SYS_pidfd_getfd]));
        }
        if !may_serve {
            rules.extend(listed(&[libc::SYS_accept, libc::SYS_accept4]));
        }
        if !may_start {
            rules.extend(listed(&[libc::SYS_execve, libc::SYS_execveat]));
        }
        other_ways(&mut rules);
        let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
        install(rules, SeccompAction::Allow, refused)
    }

    pub(in super::super) fn timer() -> io::Result<()> {
        let mut rules = listed(&TIMER);
        rules.insert(libc::SYS_bpf, only(0, ENABLE_STATS)?);
        rules.insert(libc::SYS_fcntl, only(1, libc::F_GETFD)?);
        install(rules, SeccompAction::KillProcess, SeccompAction::Allow)
    }

    fn listed(calls: &[libc::c_long]) -> BTreeMap<i64, Vec<SeccompRule>> {
        calls.iter().map(|call| (*call, Vec::new())).collect()
    }

    /// The reader of foreign files may do what is listed, and dies of anything else.
    pub(in super::super) fn reader() -> io::Result<()> {
        let mut rules = listed(&READER);
        rules.insert(libc::SYS_openat, without(2, WRITES & !HARMLESS)?);
        // Memory that holds code is neither made nor mapped.
        rules.insert(libc::SYS_mmap, without(2, libc::PROT_EXEC)?);
        rules.insert(libc::SYS_mprotect, without(2, libc::PROT_EXEC)?);
        // Builds for debugging ask whether a descriptor is open before they close it.
        rules.insert(libc::SYS_fcntl, only(1, libc::F_GETFD)?);
        install(rules, SeccompAction::KillProcess, SeccompAction::Allow)
    }

    /// Allows a call that has none of these bits in an argument.
    fn without(argument: u8, bits: libc::c_int) -> io::Result<Vec<SeccompRule>> {
        let bits = u64::from(bits.cast_unsigned());
        rule(argument, SeccompCmpOp::MaskedEq(bits), 0)
    }

    fn only(argument: u8, value: libc::c_int) -> io::Result<Vec<SeccompRule>> {
        rule(argument, SeccompCmpOp::Eq, value.cast_unsigned())
    }

    fn rule(argument: u8, operator: SeccompCmpOp, value: u32) -> io::Result<Vec<SeccompRule>> {
        let length = SeccompCmpArgLen::Dword;
        let condition = SeccompCondition::new(argument, length, operator, value.into());
        let rule = condition.and_then(|condition| SeccompRule::new(vec![condition]));
        Ok(vec![rule.map_err(io::Error::other)?])
    }

    fn install(
        rules: BTreeMap<i64, Vec<SeccompRule>>,
        otherwise: SeccompAction,
        listed: SeccompAction,
    ) -> io::Result<()> {
        let architecture = TargetArch::try_from(std::env::consts::ARCH);
        let architecture = architecture.map_err(io::Error::other)?;
        let filter = SeccompFilter::new(rules, otherwise, listed, architecture);
        let program = filter.and_then(BpfProgram::try_from);
        let program = program.map_err(io::Error::other)?;
        match seccompiler::apply_filter(&program) {
            Err(error) if !is_absent(&error) => Err(io::Error::other(error)),
            _ => Ok(()),
        }
    }

    fn is_absent(error: &seccompiler::Error) -> bool {
        let (seccompiler::Error::Prctl(refusal) | seccompiler::Error::Seccomp(refusal)) = error
        else {
            return false;
        };
        matches!(refusal.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL))
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod test {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::process::Command;

    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, PidfdGetfdFlags};

    /// A filter is the thread's that installs it, and for good.
    fn filtered(may_start: bool, may_ask: bool) -> (Result<(), Errno>, bool, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let thread = std::thread::spawn(move || {
            rustix::thread::set_no_new_privs(true).unwrap();
            super::recorder(may_start, may_ask, may_start).unwrap();
            assert_eq!(listener.accept().is_ok(), may_start);
            let us = rustix::process::getpid();
            let us = rustix::process::pidfd_open(us, PidfdFlags::empty()).unwrap();
            let asks = rustix::process::pidfd_getfd(&us, 0, PidfdGetfdFlags::empty()).is_ok();
            assert_eq!(asks, may_ask);
            let root = rustix::process::chroot("/nowhere");
            let speaks = UdpSocket::bind("127.0.0.1:0").is_ok();
            (root, speaks, Command::new("true").status().is_ok())
        });
        thread.join().unwrap()
    }

    #[test]
    fn a_recorder_cannot_call_what_is_listed() {
        assert_eq!(filtered(false, false), (Err(Errno::PERM), false, false));
        let (root, speaks, starts) = filtered(true, true);
        assert_eq!((root, speaks), (Err(Errno::PERM), false));
        assert!(starts);
        assert!(UdpSocket::bind("127.0.0.1:0").is_ok());
    }
}
