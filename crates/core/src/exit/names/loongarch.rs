//! Exits of `LoongArch`: `kvm_trace_symbol_exit_types` in `arch/loongarch/kvm/trace.h`. Exception
//! codes below 64 have no name there.

pub(super) const NAMES: &[(u32, &str)] =
    &[(64, "IDLE"), (65, "CACHE"), (66, "CPUCFG"), (67, "CSR")];
