//! Types, alignment and sizes (`SPEC.md`, sections 5 and 6.1; D numbers are its decisions).

use super::*;

/// One event with this XML for its fields and these data.
fn one(machine: &Machine, fields: &str, data: &[u8]) -> Read {
    let xml = format!("<event name=\"e\">{fields}</event>");
    machine.trace(&xml, &[event(machine.start.0 + 5, (7, 0), data), event(machine.start.0 + 6, (7, 0), data)]).read()
}

fn x86_64() -> Machine {
    Machine { arch: 8, arch_size: 8, has_heartbeat: false, ..i386() }
}

fn ppc64() -> Machine {
    Machine { is_big: true, arch: 7, arch_size: 8, alignment: 8, float_word_order: 4321, ..i386() }
}

#[test]
fn packed_fields_follow_each_other() {
    let read = one(
        &i386(),
        "<field name=a><uchar/></field><field name=b><long/></field><field name=s><string/></field>
         <field name=c><short/></field>",
        &[1, 0xfe, 0xff, 0xff, 0xff, b'h', b'i', 0, 0xff, 0x7f],
    );
    read.is(&["t.e { a=1 b=-2 s=\"hi\" c=32767 }"; 2]);
}

#[test]
fn sizes_come_from_the_load_and_not_from_the_machine() {
    // A program of 32 bits on a machine of 64.
    let xml = "<event name=e><field name=l><ulong/></field><field name=p><pointer/></field>
               <field name=z><size_t/></field><field name=i><uint size=\"1\"/></field></event>";
    let machine = x86_64();
    let data = [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0];
    let read = machine.trace_of(xml, [2, 4, 4, 8], 0, &[event(machine.start.0, (7, 0), &data)]).read();
    read.is(&["t.e { l=1 p=2 z=3 i=4 }"]);
}

#[test]
fn strings_and_sequences_are_padded_to_a_pointer() {
    let fields = "<field name=s><string/></field><field name=a><uchar/></field>
                  <field name=q><sequence><uchar/><ushort/></sequence></field><field name=b><uchar/></field>";
    // s: 3 bytes, pad to 8; a at 8; the sequence aligned to 2, its elements at 12; pad to 16.
    let data = [b'h', b'i', 0, 9, 9, 9, 9, 9, 7, 9, 2, 9, 0, 1, 0, 2, 5];
    one(&ppc64(), fields, &data).is(&["t.e { s=\"hi\" a=7 q=[ 1 2 ] b=5 }"; 2]);
}

#[test]
fn an_empty_sequence_still_pads() {
    let fields =
        "<field name=q><sequence><uchar/><uint_fixed size=4/></sequence></field><field name=b><uchar/></field>";
    one(&ppc64(), fields, &[0, 9, 9, 9, 9, 9, 9, 9, 5]).is(&["t.e { q=[ ] b=5 }"; 2]);
}

#[test]
fn alignment_of_fields_counts_from_the_event_where_headers_are_less_aligned() {
    // Headers are aligned to 4, fields of this facility to 8: no plan can decode that in place.
    let machine = Machine { alignment: 4, ..i386() };
    let xml = "<event name=e><field name=a><uchar/></field><field name=b><uint_fixed size=8/></field></event>";
    let data = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    let events: Vec<Event> = (0..3).map(|at| event(machine.start.0 + at, (7, 0), &data)).collect();
    machine.trace_of(xml, [4, 4, 4, 4], 8, &events).read().is(&["t.e { a=1 b=2 }"; 3]);
}

#[test]
fn structures_have_no_padding_behind_them_and_elements_are_padded_one_by_one() {
    // D24: 5 bytes each, the next one at a multiple of 4.
    let fields = "<field name=a><array size=2><struct><field name=w><uint_fixed size=4/></field>
                  <field name=b><uchar/></field></struct></array></field><field name=z><uchar/></field>";
    let data = [0, 0, 0, 1, 2, 9, 9, 9, 0, 0, 0, 3, 4, 5];
    one(&ppc64(), fields, &data).is(&["t.e { a=[ { w=1 b=2 } { w=3 b=4 } ] z=5 }"; 2]);
}

#[test]
fn members_of_a_union_share_their_bytes_and_it_is_as_long_as_the_largest() {
    // D25.
    let fields = "<field name=u><union><field name=w><uint_fixed size=4/></field><field name=b><array size=2><uchar/>
                  </array></field></union></field><field name=z><uchar/></field>";
    one(&i386(), fields, &[1, 2, 0, 0, 9]).is(&["t.e { u={ w=513 b=[ 1 2 ] } z=9 }"; 2]);
}

#[test]
fn variable_elements_are_read_in_place_or_not() {
    // D26: strings in a sequence, each padded to 8 but the first one, which begins after the length.
    let fields = "<field name=q><sequence><uchar/><string/></sequence></field><field name=z><uchar/></field>";
    let data = [2, b'a', 0, 0, 0, 0, 0, 0, b'b', b'c', 0, 0, 0, 0, 0, 0, 7];
    one(&ppc64(), fields, &data).is(&["t.e { q=[ \"a\" \"bc\" ] z=7 }"; 2]);
    one(&i386(), fields, &[2, b'a', 0, b'b', b'c', 0, 7]).is(&["t.e { q=[ \"a\" \"bc\" ] z=7 }"; 2]);
}

#[test]
fn network_order_and_the_order_of_floats_are_their_own() {
    let fields = "<field name=n><uint_fixed size=2 byte_order=network/></field><field name=f><float size=4/></field>
                  <field name=i><short/></field>";
    let machine = Machine { float_word_order: 4321, ..i386() };
    one(&machine, fields, &[0, 80, 0x3f, 0xc0, 0, 0, 1, 0]).is(&["t.e { n=80 f=1.5 i=1 }"; 2]);
    // D3: the order of floats of a big-endian file is a big-endian number.
    let packed = Machine { alignment: 0, ..ppc64() };
    one(&packed, fields, &[0, 80, 0x3f, 0xc0, 0, 0, 0, 1]).is(&["t.e { n=80 f=1.5 i=1 }"; 2]);
    let machine = Machine { float_word_order: 1234, ..packed };
    one(&machine, fields, &[0, 80, 0, 0, 0xc0, 0x3f, 0, 1]).is(&["t.e { n=80 f=1.5 i=1 }"; 2]);
}

#[test]
fn floats_without_an_order_take_that_of_the_file_and_it_is_told() {
    // D3.
    let machine = Machine { float_word_order: 0, ..i386() };
    let read = one(&machine, "<field name=f><float size=4/></field>", &[0, 0, 0xc0, 0x3f]);
    assert_eq!(read.payloads("cpu_0"), ["t.e { f=1.5 }"; 2]);
    assert_eq!(read.warnings.len(), 1);
    assert!(read.warnings[0].contains("byte 52: the order of bytes of floats is said to be 0"), "{:?}", read.warnings);
}

#[test]
fn enumerations_are_signed_and_show_every_label() {
    // D23.
    let fields = "<field name=c><enum><label name=a/><label name=b value=-2/><label name=c/><label name=d value=0x0/>
                  </enum></field>";
    one(&i386(), fields, &[0, 0, 0, 0]).is(&["t.e { c=0<a,d> }"; 2]);
    one(&i386(), fields, &[0xff, 0xff, 0xff, 0xff]).is(&["t.e { c=-1<c> }"; 2]);
    one(&i386(), fields, &[5, 0, 0, 0]).is(&["t.e { c=5<> }"; 2]);
}

#[test]
fn a_size_of_65535_is_computed_from_the_fields() {
    let xml = "<event name=e><field name=q><sequence><uint/><uchar/></sequence></field></event>";
    let machine = i386();
    let long = |len: u32| [&len.to_le_bytes()[..], &vec![1; len as usize]].concat();
    let big = |len: u32| Event { size: Some(u16::MAX), ..event(machine.start.0 + 1, (7, 0), &long(len)) };
    let last = event(machine.start.0 + 2, (7, 0), &[0, 0, 0, 0]);
    let read = machine.trace(xml, &[big(65531), big(70000), last]).read();
    let lengths: Vec<usize> = read.payloads("cpu_0").iter().map(|line| line.len()).collect();
    assert_eq!(lengths, [13 + 2 * 65531, 13 + 2 * 70000, 13]);
    assert_eq!(read.faults, [""; 0]);
}

#[test]
fn large_blocks_are_cut_into_slices() {
    let machine = Machine { alignment: 4, ..i386() };
    let xml = "<event name=e><field name=a><uint/></field><field name=s><string/></field></event>";
    let data = |at: u32| [&at.to_le_bytes()[..], b"some text to make it long\0\0\0"].concat();
    let events: Vec<Event> =
        (0..200_000u32).map(|at| event(machine.start.0 + u64::from(at), (7, 0), &data(at))).collect();
    let mut folder = machine.trace(xml, &events);
    folder.add("cpu_0", machine.block(machine.start.0, machine.start.0 + 300_000, &events, 4096));
    let read = folder.read();
    let stream = read.trace.streams.iter().find(|stream| stream.name == "cpu_0").expect("it");
    assert_eq!(stream.packets.len(), 4);
    let mut end = 0;
    for packet in &stream.packets {
        assert_eq!(packet.offset_bytes, end);
        end += packet.total_bits / 8;
    }
    assert_eq!(end, folder.0["cpu_0"].len() as u64);
    assert_eq!(read.faults, [""; 0]);
    let lines = read.payloads("cpu_0");
    assert_eq!(lines.len(), 200_000);
    for at in [0, 65_535, 65_536, 131_072, 199_999] {
        assert_eq!(lines[at], format!("t.e {{ a={at} s=\"some text to make it long\" }}"));
    }
    assert!(read.times("cpu_0").iter().enumerate().all(|(at, time)| time.0 == machine.start.0 + at as u64));
}
