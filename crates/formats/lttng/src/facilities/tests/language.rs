//! The definition language (`SPEC.md`, section 6).

use std::path::Path;

use super::super::definitions::{DefinitionFile, Integer, TypeKind};

fn parse(text: &str) -> DefinitionFile {
    DefinitionFile::parse(text.as_bytes(), Path::new("x.xml"))
}

const DIALECTS: [&str; 3] = [
    "/* 2005 */ <facility name=t>
       <type name=kind> <enum> <label name=a value=1/> </enum> </type>
       <event name=e per_trace> <description>what it's for // not a comment</description>
         <field name=fd> <uint size=4/> </field> // of a file
         <field name=s> <sequence> <uint> <uchar> </sequence> </field>
         <field name=k> <typeref name=kind/> </field>
       </event> </facility>",
    "<?xml version=\"1.0\"?> <facility name=\"t\">
       <type name=\"kind\"> <enum> <label name=\"a\" value=\"1\"> <description>x</description> </enum> </type>
       <event name=\"e\"> <field name=\"fd\"> <uint size=\"4\"> </field>
         <field name=\"s\"> <sequence> <uint> <uchar> </sequence> </field>
         <field name=\"k\"> <description>y</description> <typeref name=\"kind\"> </field> </event> </facility>",
    "<?xml version='1.0' encoding='UTF-8'?> <!DOCTYPE x> <facility name='t'> <!-- <event -->
       <type name='kind'><enum><label name='a' value='1'></label></enum></type>
       <event name='e'><field name='fd'><uint size='4'></uint></field>
         <field name='s'><sequence><uint/><uchar/></sequence></field>
         <field name='k'><typeref name='kind'></typeref></field></event></facility>",
];

#[test]
fn three_dialects_say_the_same() {
    let checksums = DIALECTS.map(|text| {
        let file = parse(text);
        assert!(file.broken.is_empty(), "{:?}", file.broken);
        let event = &file.facilities[0].events[0];
        let names: Vec<&str> = event.fields.iter().map(|field| &*field.name).collect();
        assert_eq!((event.name.as_str(), names), ("e", vec!["fd", "s", "k"]));
        assert!(matches!(event.fields[0].class.kind, TypeKind::Integer(Integer::UInt)));
        assert!(matches!(&event.fields[2].class.kind, TypeKind::Enumeration(labels) if labels[0].ranges == [(1, 1)]));
        file.facilities[0].checksum
    });
    assert_eq!(checksums, [checksums[0]; 3]);
}

#[test]
fn older_forms_are_accepted() {
    let text = "<facility name=t><event name=e><struct><field name=a><sequence lengthsize=2><char/></sequence></field>
                <field name=b><int_fixed size=2 write=custom/></field></struct></event></facility>
                <facility name=u align=4 arch=arm></facility>";
    let file = parse(text);
    assert!(file.broken.is_empty(), "{:?}", file.broken);
    let fields = &file.facilities[0].events[0].fields;
    let TypeKind::Sequence(length, _) = &fields[0].class.kind else { panic!("no sequence") };
    assert!(matches!(length.kind, TypeKind::Integer(Integer::Fixed(2, false))));
    assert_eq!(file.facilities[1].arch.as_deref(), Some("arm"));
}

#[test]
fn faults_have_a_line_and_leave_the_other_facilities_alone() {
    let cases = [
        ("<uint_fixed size=3/>", "line 2, column 23: `size` is 3, expected 1, 2, 4 or 8"),
        ("<uint_fixed/>", "no `size` of `uint_fixed`"),
        ("<float size=2/>", "a `float` of 2 bytes"),
        ("<array size=0><uchar/></array>", "not above 0"),
        ("<array size=x><uchar/></array>", "`x` is not a number for `size`"),
        ("<array size=2></array>", "an array has one type of elements"),
        ("<sequence><int/><uchar/></sequence>", "the length of a sequence is an unsigned integer"),
        ("<sequence><uint/></sequence>", "a sequence has a type of its length"),
        ("<sequence><uint/><struct></struct></sequence>", "its elements are structures without fields"),
        ("<typeref name=none/>", "no type `none` is declared before"),
        ("<thing/>", "`thing` is not a type"),
        ("<uint/><uint/>", "a second type of the field `f`"),
        ("", "no type of the field `f`"),
        ("<enum><label/></enum>", "the element `label` has no `name`"),
        ("<uint/></event>", "`</event>` where `</field>` is expected"),
        ("<enum><label name=\"a></enum>", "the quoted value that begins here has no end"),
    ];
    for (class, expected) in cases {
        let text = format!(
            "<facility name=bad><event name=e>\n     <field name=f>   {class}</field></event></facility>
                            <facility name=good><event name=x></event></facility>"
        );
        let file = parse(&text);
        let (name, error) = file.broken.first().expect(expected);
        assert_eq!(name.as_deref(), Some("bad"));
        assert!(error.to_string().contains(expected), "{error} is not {expected}");
        assert!(error.to_string().contains("x.xml: line 2"), "{error}");
        assert_eq!(file.facilities.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["good"], "{class}");
    }
}

#[test]
fn types_that_grow_by_multiplication_are_refused() {
    let mut text = "<facility name=t><type name=t0><struct><field name=a><uint/></field></struct></type>".to_string();
    for at in 1..40 {
        let inner = format!("<typeref name=t{}/>", at - 1);
        text += &format!(
            "<type name=t{at}><struct><field name=a>{inner}</field><field name=b>{inner}</field></struct></type>"
        );
    }
    let file = parse(&(text + "</facility>"));
    assert!(file.broken[0].1.to_string().contains("too many fields"), "{}", file.broken[0].1);
    let deep = "<array size=1>".repeat(5000);
    let file = parse(&format!("<facility name=t><event name=e><field name=a>{deep}"));
    assert!(file.broken[0].1.to_string().contains("more than 32 deep"), "{}", file.broken[0].1);
}

#[test]
fn formats_enter_the_checksum_and_say_the_base() {
    let with = |format: &str| {
        let file =
            parse(&format!("<facility name=t><event name=e><field name=a><uint {format}/></field></event></facility>"));
        file.facilities[0].checksum
    };
    assert_ne!(with("format=\"%x\""), with(""));
    assert_eq!(with("byte_order=network"), with(""));
}

#[test]
fn definitions_written_as_text_are_read_as_they_were() {
    let text = "<facility name='t'>
       <event name='e'><description>x</description>
         <field name='i'><int_fixed size='2' format='%#llx'/></field> <field name='u'><uint_fixed size='8'/></field>
         <field name='c'><uchar/></field> <field name='f'><float size='4'/></field> <field name='t'><string/></field>
         <field name='k'><enum><label name='a' value='-1'/><label name='b' value='7'/></enum></field>
         <field name='n'><array size='3'><union><field name='o'><off_t/></field></union></array></field>
         <field name='q'><sequence><uint/><struct><field name='p'><pointer/></field></struct></sequence></field>
       </event> <event name='none'></event> </facility>";
    let file = parse(text);
    let facility = &file.facilities[0];
    let again = parse(&facility.to_string());
    assert!(again.broken.is_empty(), "{:?}", again.broken);
    assert_eq!(format!("{:?}", again.facilities[0]), format!("{facility:?}"));
}
