//! The page: files that `web/` makes, compressed, in the program.

/// A file of the page.
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    pub(crate) kind: &'static str,
    brotli: &'static [u8],
    gzip: &'static [u8],
}

macro_rules! asset {
    ($path:literal, $kind:literal, $file:literal) => {
        Asset {
            path: $path,
            kind: $kind,
            brotli: include_bytes!(concat!("../../../web/dist/", $file, ".br")),
            gzip: include_bytes!(concat!("../../../web/dist/", $file, ".gz")),
        }
    };
}

const ASSETS: &[Asset] = &[
    asset!("/", "text/html; charset=utf-8", "index.html"),
    asset!("/app.js", "text/javascript; charset=utf-8", "app.js"),
    asset!("/app.css", "text/css; charset=utf-8", "app.css"),
];

impl Asset {
    /// The file of a path.
    pub(crate) fn find(path: &str) -> Option<&'static Asset> {
        let path = if path == "/index.html" { "/" } else { path };
        ASSETS.iter().find(|asset| asset.path == path)
    }

    /// Its encoding and bytes for a client that takes these encodings. Every browser takes one of them.
    pub(crate) fn encoded(&self, accepted: &str) -> (&'static str, &'static [u8]) {
        let takes_brotli = accepted.split(',').any(|one| one.trim().split(';').next() == Some("br"));
        if takes_brotli { ("br", self.brotli) } else { ("gzip", self.gzip) }
    }
}
