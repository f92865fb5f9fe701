//! The magic number that every block and sub-buffer of any version holds, at different places.

use tracemill_model::schema::ByteOrder;

/// The number itself.
pub(crate) const MAGIC: u32 = 0x00d6_b7ed;

/// Its bytes.
pub(crate) fn magic_bytes(order: ByteOrder) -> [u8; 4] {
    match order {
        ByteOrder::Little => MAGIC.to_le_bytes(),
        ByteOrder::Big => MAGIC.to_be_bytes(),
    }
}

/// The byte order in which it stands at a place, `None` when it is not there.
pub(crate) fn magic_order(bytes: &[u8], at: usize) -> Option<ByteOrder> {
    let found = bytes.get(at..)?.first_chunk::<4>()?;
    [ByteOrder::Little, ByteOrder::Big].into_iter().find(|&order| magic_bytes(order) == *found)
}

/// The first place of a header that `fits`, in the byte order of a file when that is known; places are those of the magic
/// number.
pub(crate) fn next_magic(bytes: &[u8], known: Option<ByteOrder>, fits: impl Fn(usize) -> bool) -> Option<usize> {
    // With a known order all searches of a file together pass over it once.
    let orders =
        [ByteOrder::Little, ByteOrder::Big].into_iter().filter(|order| known.is_none_or(|known| known == *order));
    let found = orders.filter_map(|order| memchr::memmem::find_iter(bytes, &magic_bytes(order)).find(|&at| fits(at)));
    found.min()
}
