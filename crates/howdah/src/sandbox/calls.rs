//! seccomp: the system calls that are left. Everything else is refused with EPERM, as if this user might not.
//!
//! The list is what a server and its copies use, and what the C library and Rust's may use for it on other kernels. Not on it:
//! to run programs, to look into other processes, to mount, to load code into the kernel, keys, new namespaces.

use super::Sandbox;
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

/// Why it is not in force.
pub(super) fn enter(sandbox: &Sandbox) -> Option<String> {
    let entered = programs(sandbox).and_then(|programs| {
        programs
            .iter()
            .try_for_each(|program| seccompiler::apply_filter(program).map_err(|e| e.to_string()))
    });
    entered.err().map(|why| {
        format!("seccomp is not in force: all system calls of this user are left to this process ({why})")
    })
}

/// See [`super::open_nothing`].
pub(super) fn open_nothing() -> Option<String> {
    let refused = [NAMES, OLD_NAMES, NEW_SOCKETS].concat();
    let refused = refused.into_iter().map(|call| (call, Vec::new())).collect();
    let entered = compile(refused, SeccompAction::Allow, REFUSED)
        .and_then(|program| seccompiler::apply_filter(&program).map_err(|e| e.to_string()));
    entered
        .err()
        .map(|why| format!("what hears the network could open files ({why})"))
}

const REFUSED: SeccompAction = SeccompAction::Errno(libc::EPERM.cast_unsigned());

fn compile(
    rules: BTreeMap<c_long, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, String> {
    let arch = std::env::consts::ARCH.try_into();
    let arch = arch.map_err(|e: seccompiler::BackendError| e.to_string())?;
    SeccompFilter::new(rules, otherwise, matched, arch)
        .and_then(BpfProgram::try_from)
        .map_err(|e| e.to_string())
}

fn programs(sandbox: &Sandbox) -> Result<[BpfProgram; 2], String> {
    // Its flags lie in memory, where no filter sees them: the C library then takes the old call.
    let no_clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    // The list comes last: what installs another one is not on it.
    Ok([
        compile(
            no_clone3,
            SeccompAction::Allow,
            SeccompAction::Errno(libc::ENOSYS.cast_unsigned()),
        )?,
        compile(allowed(sandbox)?, REFUSED, SeccompAction::Allow)?,
    ])
}

fn condition(argument: u8, length: Len, op: Op, value: u64) -> Result<SeccompCondition, String> {
    SeccompCondition::new(argument, length, op, value).map_err(|e| e.to_string())
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, String> {
    SeccompRule::new(conditions).map_err(|e| e.to_string())
}

fn allowed(sandbox: &Sandbox) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, String> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = BTreeMap::new();
    let mut plain = vec![
        FILES, NAMES, SOCKETS, MEMORY, THREADS, TIME, ITSELF, OLD, OLD_NAMES,
    ];
    if !sandbox.connects.is_empty() {
        plain.push(CONNECTIONS);
    }
    rules.extend(plain.concat().into_iter().map(|call| (call, Vec::new())));

    // The other list answers it: of two refusals the newer one would count.
    rules.insert(libc::SYS_clone3, Vec::new());
    // A thread, and not a process.
    let thread = libc::CLONE_THREAD as u64;
    let thread = condition(0, Len::Qword, Op::MaskedEq(thread), thread)?;
    rules.insert(libc::SYS_clone, vec![rule(vec![thread])?]);

    // Nothing that can be written becomes code.
    let code = libc::PROT_EXEC as u64;
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let no_code = condition(2, Len::Dword, Op::MaskedEq(code), 0)?;
        rules.insert(call, vec![rule(vec![no_code])?]);
    }

    // A thread may be kept from more. (What hears the network is.)
    let filter = condition(0, Len::Dword, Op::Eq, libc::SECCOMP_SET_MODE_FILTER.into())?;
    let nobody_listens = condition(1, Len::Qword, Op::Eq, 0)?;
    rules.insert(libc::SYS_seccomp, vec![rule(vec![filter, nobody_listens])?]);

    // The name of a thread, and of memory.
    let prctl = [
        libc::PR_SET_NO_NEW_PRIVS,
        libc::PR_SET_NAME,
        libc::PR_GET_NAME,
        libc::PR_GET_DUMPABLE,
        libc::PR_SET_VMA,
    ];
    let prctl = prctl
        .map(|what| condition(0, Len::Dword, Op::Eq, what as u64).and_then(|is| rule(vec![is])));
    rules.insert(
        libc::SYS_prctl,
        prctl.into_iter().collect::<Result<_, _>>()?,
    );

    // Whoever started it may sit at a terminal: nothing is typed into it.
    let typed = TYPED.map(|request| condition(1, Len::Dword, Op::Ne, request));
    let typed = typed.into_iter().collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_ioctl, vec![rule(typed)?]);

    let families = if sandbox.connects.is_empty() {
        // Of this machine alone: where howdah ctl comes in.
        vec![libc::AF_UNIX]
    } else {
        vec![libc::AF_INET, libc::AF_INET6]
    };
    let families = families.into_iter().map(|family| {
        condition(0, Len::Dword, Op::Eq, family as u64).and_then(|is| rule(vec![is]))
    });
    let families = families.collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_socket, families);
    Ok(rules)
}

/// `TIOCSTI` and `TIOCLINUX`, whose types differ between C libraries.
const TYPED: [u64; 2] = [0x5412, 0x541c];

const FILES: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_syncfs,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_pipe2,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_fgetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_flistxattr,
    libc::SYS_fremovexattr,
];

const NAMES: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getdents64,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_readlinkat,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_getcwd,
    libc::SYS_umask,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
];

/// Of sockets that it has. A new one is bound to a path only: TCP is Landlock's, and it can have no other family.
const SOCKETS: &[c_long] = &[
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
];

/// What would make another one, beside those that it was given.
const NEW_SOCKETS: &[c_long] = &[
    libc::SYS_socket,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_connect,
];

const CONNECTIONS: &[c_long] = &[libc::SYS_connect];

const MEMORY: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_mincore,
    libc::SYS_membarrier,
    libc::SYS_get_mempolicy,
];

const THREADS: &[c_long] = &[
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_getcpu,
];

const TIME: &[c_long] = &[
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
];

/// About itself: also to abort, with a signal to the thread that does.
const ITSELF: &[c_long] = &[
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_tgkill,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrandom,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

/// What older processors have beside those above.
#[cfg(target_arch = "x86_64")]
const OLD_NAMES: &[c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_chmod,
];
#[cfg(target_arch = "x86_64")]
const OLD: &[c_long] = &[
    libc::SYS_pipe,
    libc::SYS_dup2,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_create,
    libc::SYS_eventfd,
    libc::SYS_time,
    libc::SYS_arch_prctl,
    libc::SYS_getrlimit,
    libc::SYS_sync_file_range,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_NAMES: &[c_long] = &[];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[c_long] = &[];
