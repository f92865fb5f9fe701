use super::*;

#[test]
fn every_file_is_whole_and_every_facility_has_its_own_checksum() {
    for (name, text) in FILES {
        let file = DefinitionFile::parse(text.as_bytes(), Path::new(name));
        assert!(file.broken.is_empty(), "{name}: {:?}", file.broken);
        assert!(!file.facilities.is_empty(), "{name}");
    }
    for (at, one) in all().iter().enumerate() {
        let same = all()[..at].iter().find(|other| other.name == one.name && other.checksum == one.checksum);
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
        assert!(find(name, checksum).is_some(), "{name}");
    }
    assert!(find("fs", 1).is_none());
}
