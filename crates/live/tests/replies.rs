//! Replies that end anywhere, and every status: an error with its place, and never more than what arrived.

use tracemill_live::protocol::{LiveCommand, ReplyReader, ReplyResult};

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn entry(id: u64) -> Vec<u8> {
    let mut entry = [id.to_be_bytes(), 1u64.to_be_bytes()].concat();
    entry.extend(words(&[0]));
    entry.extend(b"ust/uid/1000".iter().chain(std::iter::repeat_n(&0, 4096 - 12)));
    entry.extend(b"c_0".iter().chain(std::iter::repeat_n(&0, 255 - 3)));
    entry
}

type Reader<'b> = ReplyReader<&'b [u8]>;
/// Reads a reply, and gives its status, where it has one.
type Read = fn(&mut Reader<'_>) -> ReplyResult<Option<u32>>;

/// A whole reply to each command, and where the last byte of its status is.
fn replies() -> Vec<(&'static str, Vec<u8>, Option<usize>, Read)> {
    let connect = [0u64.to_be_bytes().to_vec(), words(&[2, 13, 0])].concat();
    let session = [7u64.to_be_bytes().to_vec(), words(&[40_000, 0, 2]), vec![b'm'; 64], vec![b'n'; 255]].concat();
    let sessions = [words(&[2]), session.clone(), session].concat();
    let streams = [words(&[1, 2]), entry(1), entry(2)].concat();
    let index = [vec![1; 56], words(&[1, 0])].concat();
    let packet = [words(&[1, 40, 0]), vec![5; 40]].concat();
    let metadata = [9u64.to_be_bytes().to_vec(), words(&[1]), vec![b' '; 9]].concat();
    vec![
        ("connect", connect, None, |reader| reader.connect().map(|()| None)),
        ("list sessions", sessions, None, |reader| reader.sessions().map(|_| None)),
        ("attach", streams.clone(), Some(3), |reader| reader.attached().map(|(status, _)| Some(status))),
        ("new streams", streams, Some(3), |reader| reader.new_streams().map(|(status, _)| Some(status))),
        ("next index", index, Some(59), |reader| reader.index().map(|index| Some(index.status))),
        ("get packet", packet, Some(3), |reader| reader.packet(40).map(|reply| Some(reply.status))),
        ("get metadata", metadata, Some(11), |reader| reader.metadata(100).map(|(status, _)| Some(status))),
        ("detach", words(&[1]), Some(3), |reader| reader.status(LiveCommand::Detach).map(Some)),
    ]
}

#[test]
fn replies_end_at_every_byte() {
    for (name, whole, _, read) in replies() {
        assert!(read(&mut ReplyReader::new(&whole[..])).is_ok(), "{name}");
        for len in 0..whole.len() {
            let mut reader = ReplyReader::new(&whole[..len]);
            let error = read(&mut reader).err().unwrap_or_else(|| panic!("{name}: {len} of {} bytes", whole.len()));
            assert!(error.offset <= len as u64, "{name}: {len}: {error}");
            assert!(error.to_string().contains(name), "{name}: {error}");
        }
    }
}

/// Statuses without meaning are given as they are: the viewer says what they end.
#[test]
fn every_status_is_read() {
    for (name, whole, at, read) in replies() {
        let Some(at) = at else { continue };
        for status in 0..=7 {
            let mut bytes = whole.clone();
            bytes[at] = status;
            let mut reader = ReplyReader::new(&bytes[..]);
            assert_eq!(read(&mut reader).ok().flatten(), Some(status.into()), "{name}: status {status}");
            assert!(reader.offset() <= bytes.len() as u64);
        }
    }
}
