//! The page of tracemill's viewer: what `npm run build` made of the source beside this file, compressed.
#![forbid(unsafe_code)]

/// A file of the page that is served.
pub struct Asset {
    /// Path below which it is asked for.
    pub path: &'static str,
    /// Its media type, as the header `Content-Type` has it.
    pub media_type: &'static str,
    /// Its bytes, compressed by Brotli.
    pub brotli: &'static [u8],
    /// Its bytes, compressed by gzip.
    pub gzip: &'static [u8],
}

macro_rules! asset {
    ($path:literal, $media_type:literal, $file:literal) => {
        Asset {
            path: $path,
            media_type: $media_type,
            brotli: include_bytes!(concat!("dist/", $file, ".br")),
            gzip: include_bytes!(concat!("dist/", $file, ".gz")),
        }
    };
}

/// The files of the page that is served.
pub const ASSETS: &[Asset] = &[
    asset!("/", "text/html; charset=utf-8", "index.html"),
    asset!("/app.js", "text/javascript; charset=utf-8", "app.js"),
    asset!("/app.css", "text/css; charset=utf-8", "app.css"),
];

/// The page in one file, compressed by gzip, with the mark `@DATA@` where a trace's data goes.
pub const FILE: &[u8] = include_bytes!("dist/file.html.gz");
