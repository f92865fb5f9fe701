//! Which file of the page answers a request, in which encoding.

use tracemill_page::{ASSETS, Asset};

/// The file of a path.
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    let path = if path == "/index.html" { "/" } else { path };
    ASSETS.iter().find(|asset| asset.path == path)
}

/// Encoding and bytes of a file for a client that takes these encodings. Every browser takes one of them.
pub(crate) fn encoded(asset: &Asset, accepted: &str) -> (&'static str, &'static [u8]) {
    let takes_brotli = accepted.split(',').any(|one| one.trim().split(';').next() == Some("br"));
    if takes_brotli { ("br", asset.brotli) } else { ("gzip", asset.gzip) }
}
