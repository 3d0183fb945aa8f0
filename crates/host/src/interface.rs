//! Differences between kernels in the interface of congestion controls, read from the kernel's own types (BTF).
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::Path;
use std::sync::OnceLock;

use libbpf_rs::btf::types::{Enum, Func, FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, ReferencesType as _};

/// Location of the kernel's types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Interface of congestion controls in the running kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Congestion controls in BPF are accepted (Linux 5.6).
    pub has_struct_ops: bool,
    /// Its BPF is that of Linux 6.1 or later, whose programs may set the pacing rate. Distributions move newer BPF to
    /// older kernels.
    pub has_bpf_of_6_1: bool,
    /// Arguments of `cong_control`: 4 from Linux 6.10 on, 2 before; 0 if unknown.
    pub cong_control: usize,
    /// The start of a transmission has a hook of its own, and no longer reaches `cwnd_event` (Linux 7.1).
    pub has_tx_start: bool,
    /// A registration is a link (Linux 6.4). Earlier kernels keep it until the map's element is deleted, and let no
    /// program write `tp->app_limited`.
    pub has_links: bool,
    /// Iterator over TCP sockets (Linux 5.9).
    pub has_socket_iterator: bool,
    /// `bpf_rdonly_cast`: a program can read a socket by its address (Linux 6.2).
    pub has_casts: bool,
    /// Each ACK's number of packets with a CE mark.
    pub counts_marks: bool,
    /// Hosts can negotiate accurate ECN, and a congestion control can ask for it (Linux 7.0).
    pub has_accurate_ecn: bool,
}

impl Interface {
    /// Interface of the running kernel, or `None` if it exposes no types.
    pub fn of_kernel() -> Option<Self> {
        static FOUND: OnceLock<Option<Interface>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            libbpf_rs::set_print(None);
            let types = Path::new(TYPES).exists().then(Btf::from_vmlinux)?.ok()?;
            Some(Self::read(&types))
        })
    }

    fn read(types: &Btf<'_>) -> Self {
        let has_struct = |name: &str| types.type_by_name::<Struct<'_>>(name).is_some();
        let has_member = |of: &str, member: &str| {
            let found = types.type_by_name::<Struct<'_>>(of);
            found.is_some_and(|found| found.iter().any(|one| one.name.is_some_and(|name| name == member)))
        };
        Self {
            has_struct_ops: has_struct("bpf_struct_ops_tcp_congestion_ops"),
            // The pacing rate's right shows in no type: a helper of 6.1 stands for it.
            has_bpf_of_6_1: types.type_by_name::<Enum<'_>>("bpf_func_id").is_some_and(|helpers| {
                helpers.iter().any(|one| one.name == Some("BPF_FUNC_user_ringbuf_drain".as_ref()))
            }),
            cong_control: arguments(types, "cong_control").unwrap_or(0),
            has_tx_start: has_member("tcp_congestion_ops", "cwnd_event_tx_start"),
            // `BPF_LINK_TYPE_STRUCT_OPS` is older than this structure, and says nothing.
            has_links: has_struct("bpf_struct_ops_link"),
            has_socket_iterator: has_struct("bpf_iter__tcp"),
            has_casts: types.type_by_name::<Func<'_>>("bpf_rdonly_cast").is_some(),
            counts_marks: has_member("rate_sample", "delivered_ce"),
            // The flags that a congestion control sets are in no type. Linux 6.18 has the counters, and negotiates nothing; this value
            // came with the rest.
            has_accurate_ecn: types.type_by_name::<Enum<'_>>("tcp_accecn_option").is_some_and(|options| {
                options.iter().any(|one| one.name == Some("TCP_ACCECN_OPTION_PERSIST".as_ref()))
            }),
        }
    }
}

/// Number of arguments of a hook.
fn arguments(types: &Btf<'_>, hook: &str) -> Option<usize> {
    let hooks = types.type_by_name::<Struct<'_>>("tcp_congestion_ops")?;
    let member = hooks.iter().find(|member| member.name.is_some_and(|name| name == hook))?;
    let pointer = types.type_by_id::<Ptr<'_>>(member.ty)?;
    let function = FuncProto::try_from(pointer.referenced_type()).ok()?;
    Some(function.iter().count())
}
