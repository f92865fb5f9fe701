//! Names of the reasons for which hardware leaves virtual machines, as the kernel's headers and `perf kvm stat` have them.

/// Kinds of virtualisation, as KVM numbers them (`arch/x86/include/asm/kvm_host.h`).
const VMX: i64 = 1;
const SVM: i64 = 2;

/// The number of a reason of VMX is in its low half; the rest are flags.
const VMX_REASON: i64 = 0xffff;

/// The name of a reason; none where it has no name, or the kind is not known.
pub(super) fn reason_name(isa: Option<i64>, number: i64) -> Option<&'static str> {
    let (names, number) = match isa? {
        VMX => (VMX_REASONS, number & VMX_REASON),
        SVM => (SVM_REASONS, number),
        _ => return None,
    };
    names.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// Reasons of VMX (`arch/x86/include/uapi/asm/vmx.h`).
const VMX_REASONS: &[(i64, &str)] = &[
    (0, "EXCEPTION_NMI"),
    (1, "EXTERNAL_INTERRUPT"),
    (2, "TRIPLE_FAULT"),
    (3, "INIT_SIGNAL"),
    (4, "SIPI_SIGNAL"),
    (7, "INTERRUPT_WINDOW"),
    (8, "NMI_WINDOW"),
    (9, "TASK_SWITCH"),
    (10, "CPUID"),
    (12, "HLT"),
    (13, "INVD"),
    (14, "INVLPG"),
    (15, "RDPMC"),
    (16, "RDTSC"),
    (18, "VMCALL"),
    (19, "VMCLEAR"),
    (20, "VMLAUNCH"),
    (21, "VMPTRLD"),
    (22, "VMPTRST"),
    (23, "VMREAD"),
    (24, "VMRESUME"),
    (25, "VMWRITE"),
    (26, "VMOFF"),
    (27, "VMON"),
    (28, "CR_ACCESS"),
    (29, "DR_ACCESS"),
    (30, "IO_INSTRUCTION"),
    (31, "MSR_READ"),
    (32, "MSR_WRITE"),
    (33, "INVALID_STATE"),
    (34, "MSR_LOAD_FAIL"),
    (36, "MWAIT_INSTRUCTION"),
    (37, "MONITOR_TRAP_FLAG"),
    (39, "MONITOR_INSTRUCTION"),
    (40, "PAUSE_INSTRUCTION"),
    (41, "MCE_DURING_VMENTRY"),
    (43, "TPR_BELOW_THRESHOLD"),
    (44, "APIC_ACCESS"),
    (45, "EOI_INDUCED"),
    (46, "GDTR_IDTR"),
    (47, "LDTR_TR"),
    (48, "EPT_VIOLATION"),
    (49, "EPT_MISCONFIG"),
    (50, "INVEPT"),
    (51, "RDTSCP"),
    (52, "PREEMPTION_TIMER"),
    (53, "INVVPID"),
    (54, "WBINVD"),
    (55, "XSETBV"),
    (56, "APIC_WRITE"),
    (57, "RDRAND"),
    (58, "INVPCID"),
    (59, "VMFUNC"),
    (60, "ENCLS"),
    (61, "RDSEED"),
    (62, "PML_FULL"),
    (63, "XSAVES"),
    (64, "XRSTORS"),
    (67, "UMWAIT"),
    (68, "TPAUSE"),
    (74, "BUS_LOCK"),
    (75, "NOTIFY"),
];

/// Reasons of SVM that occur often (`arch/x86/include/uapi/asm/svm.h`).
const SVM_REASONS: &[(i64, &str)] = &[
    (0x60, "interrupt"),
    (0x61, "nmi"),
    (0x62, "smi"),
    (0x63, "init"),
    (0x64, "vintr"),
    (0x65, "cr0_sel_write"),
    (0x6e, "rdtsc"),
    (0x6f, "rdpmc"),
    (0x72, "cpuid"),
    (0x74, "iret"),
    (0x75, "swint"),
    (0x76, "invd"),
    (0x77, "pause"),
    (0x78, "hlt"),
    (0x79, "invlpg"),
    (0x7a, "invlpga"),
    (0x7b, "ioio"),
    (0x7c, "msr"),
    (0x7d, "task_switch"),
    (0x7f, "shutdown"),
    (0x80, "vmrun"),
    (0x81, "vmmcall"),
    (0x82, "vmload"),
    (0x83, "vmsave"),
    (0x84, "stgi"),
    (0x85, "clgi"),
    (0x86, "skinit"),
    (0x89, "wbinvd"),
    (0x8a, "monitor"),
    (0x8b, "mwait"),
    (0x8d, "xsetbv"),
    (0x400, "npf"),
    (0x401, "avic_incomplete_ipi"),
    (0x402, "avic_unaccelerated_access"),
    (0x403, "vmgexit"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_name_of_its_kind() {
        assert_eq!(reason_name(Some(VMX), 12), Some("HLT"));
        // An entry that failed.
        assert_eq!(reason_name(Some(VMX), 0x8000_0021), Some("INVALID_STATE"));
        assert_eq!(reason_name(Some(SVM), 0x78), Some("hlt"));
        assert_eq!((reason_name(None, 12), reason_name(Some(VMX), 900), reason_name(Some(9), 12)), (None, None, None));
    }
}
