use super::super::definitions::TypeKind;
use super::*;

#[test]
fn every_file_is_whole_and_every_facility_has_its_own_checksum() {
    for (name, text) in FILES {
        let file = DefinitionFile::parse(text.as_bytes(), Path::new(name));
        assert!(file.broken.is_empty(), "{name}: {:?}", file.broken);
        assert!(!file.facilities.is_empty(), "{name}");
    }
    for (at, one) in all().iter().enumerate() {
        let is_same = |other: &FacilityDefinition| {
            other.name == one.name && other.checksum == one.checksum && other.arch == one.arch
        };
        let same = all()[..at].iter().find(|other| is_same(other));
        assert!(same.is_none(), "{} {} twice", one.name, one.checksum);
    }
}

/// Checksums that traces made with the historic tools carry.
#[test]
fn checksums_are_those_of_traces() {
    let known = [
        ("fs", 1_084_638_700),
        ("ipc", 336_726_682),
        ("kernel", 1_837_835_268),
        ("process", 4_150_882_327),
        ("statedump", 2_720_809_820),
    ];
    for (name, checksum) in known {
        assert!(find(name, checksum, None).is_some(), "{name}");
    }
    assert!(find("fs", 1, None).is_none());
}

/// Checksums that another program made from the files of the time: names, types and labels are those of then.
#[test]
fn every_definition_has_the_checksum_of_its_time() {
    let mut count = 0;
    for line in include_str!("checksums.txt").lines() {
        let mut words = line.split(' ');
        let (name, arch) = (words.next().expect("a name"), words.next().expect("an architecture"));
        let arch = Some(arch).filter(|arch| *arch != "-");
        for checksum in words {
            let found = find(name, checksum.parse().expect("a number"), arch);
            let found = found.unwrap_or_else(|| panic!("no {name} of {arch:?} with {checksum}"));
            assert_eq!(found.arch.as_deref(), arch, "{name} {checksum}");
            count += 1;
        }
    }
    // One more: a short table of system calls that traces of several architectures have.
    assert_eq!(all().len(), count + 1);
}

#[test]
fn system_calls_have_the_numbers_of_their_architecture() {
    let number = |checksum: u32, arch: &str, name: &str| {
        let found = find("kernel_arch", checksum, Some(arch)).expect("it is known");
        let field = found.events.iter().find(|event| event.name == "syscall_entry").expect("it").fields[0].clone();
        let TypeKind::Enumeration(labels) = &field.class.kind else { panic!("no enumeration") };
        labels.iter().find(|label| &*label.label == name).map(|label| label.ranges[0].0)
    };
    assert_eq!(number(1_900_821_285, "i386", "inotify_rm_watch"), Some(293));
    assert_eq!(number(3_770_487_539, "i386", "epoll_pwait"), Some(319));
    assert_eq!(number(1_655_786_526, "arm", "keyctl"), Some(311));
    assert_eq!(number(1_657_083_949, "c2", "o32_read"), Some(4003));
    assert_eq!(number(817_855_827, "mips", "o32_read"), Some(4003));
    assert_eq!(number(3_913_557_900, "ppc", "read"), Some(3));
    assert_eq!(number(3_913_557_900, "powerpc", "write"), Some(4));
}
