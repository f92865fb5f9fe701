//! Addresses of user records: 48 bits, anywhere in the address space, in all word sizes and byte orders. arm64 programs lie
//! above bit 47.

use super::tests::{LITTLE_64, Target, folder, open, read};

const TARGETS: [Target; 3] =
    [LITTLE_64, Target { big: true, is_64_bit: true }, Target { big: false, is_64_bit: false }];

/// A folder whose only function is 0x100 bytes long and begins at `begin`, with a call from each of `addresses`. The stack is
/// where the system of such a program has it.
fn calls_at(target: Target, begin: u64, addresses: &[u64]) -> Vec<String> {
    let mut records = Vec::new();
    for (at, &address) in addresses.iter().enumerate() {
        target.record(&mut records, 100 + at as u64, 0, false, at as u64, address);
    }
    let mut folder = folder(target, "", records);
    let stack: u64 = match (target.is_64_bit, begin >> 47) {
        (false, _) => 0xbef0_0000,
        (true, 0) => 0x7ffc_0000_0000,
        (true, _) => 0xffff_dff4_e000,
    };
    let map = format!(
        "{begin:012x}-{:012x} r-xp 00000000 00:00 0 /srv/prog\n{stack:x}-{:x} rw-p 00000000 00:00 0 [stack]\n",
        begin + 0x100,
        stack + 0x1000
    );
    folder.0.insert("sid-0123456789abcdef.map".into(), map.into_bytes());
    let symbols = b"# symbols: 2\n# path name: /srv/prog\n0 T far\n100 ? __sym_end\n";
    folder.0.insert("prog.sym".into(), symbols.to_vec());
    let (lines, faults, _) = read(&open(&folder));
    assert!(faults.is_empty(), "{faults:?}");
    lines
}

fn line(at: usize, address: u64, symbol: &str) -> String {
    format!("{} entry 7 {at} {address} {symbol}", 100 + at)
}

#[test]
fn every_bit_of_an_address_is_as_it_is_stored() {
    for target in TARGETS {
        let bits = if target.is_64_bit { 48 } else { 31 };
        for bit in 9..bits {
            // Each bit alone, and with all bits above it.
            for begin in [1 << bit, ((1u64 << bits) - 1) & !((1 << bit) - 1)] {
                let addresses = [begin, begin + 4, begin + 0xff];
                let want: Vec<String> =
                    addresses.iter().enumerate().map(|(at, &address)| line(at, address, "\"far\" \"prog\"")).collect();
                assert_eq!(calls_at(target, begin, &addresses), want, "bit {bit} at {begin:#x}");
            }
        }
    }
}

#[test]
fn both_ends_of_the_address_space_have_functions() {
    for target in TARGETS {
        let top = if target.is_64_bit { 0xffff_ffff_ff00 } else { 0x7fff_ff00 };
        for begin in [0, 0x100, top] {
            assert_eq!(calls_at(target, begin, &[begin + 0x10]), [line(0, begin + 0x10, "\"far\" \"prog\"")]);
        }
    }
    // Addresses that no module has stay as they are, too: they have no name, and no bits of the kernel.
    for address in [0, 0x7fff_ffff_ffff, 0x8000_0000_0000, 0xffff_ffff_ffff] {
        let lines = calls_at(LITTLE_64, 0x40_0000, &[address]);
        assert!(lines[0].starts_with(&format!("100 entry 7 0 {address} ")), "{lines:?}");
        assert!(!lines[0].contains("far"), "{lines:?}");
    }
}

#[test]
fn random_addresses_find_the_function_that_holds_them() {
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for round in 0..300 {
        let target = TARGETS[round % 3];
        let begin = random(if target.is_64_bit { 1 << 48 } else { 1 << 31 }) & !0xfff;
        let inside = begin + random(0x100);
        let outside = begin ^ 0x10_0000;
        let lines = calls_at(target, begin, &[inside, outside]);
        assert_eq!(lines[0], line(0, inside, "\"far\" \"prog\""), "{begin:#x}");
        assert!(lines[1].starts_with(&format!("101 entry 7 1 {outside} ")) && !lines[1].contains("far"), "{lines:?}");
    }
}
