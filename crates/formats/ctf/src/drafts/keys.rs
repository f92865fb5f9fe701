//! AES-GCM, and the sources of its keys (`SPEC.md`, D32).

use std::path::Path;
use std::sync::Mutex;

use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::aes::{Aes128, Aes192, Aes256};
use aes_gcm::{AesGcm, Nonce};
use tracemill_model::error::{Error, Result};

use tracemill_format::OpenContext;

/// Name of the option for a passphrase.
pub(super) const PASSPHRASE: &str = "passphrase-file";
/// Name of the option for a key.
pub(super) const KEY: &str = "key-file";

/// Bytes before and after the ciphertext.
const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;
/// Rounds that make a key of a passphrase.
const ROUNDS: u32 = 600_000;
/// A key file holds 64 digits, a passphrase what a person types.
const MAX_FILE: usize = 1 << 16;

/// Keys and passphrases of the user, to decrypt packets.
#[derive(Default)]
pub(super) struct Keys {
    key: Option<Vec<u8>>,
    passphrase: Option<Vec<u8>>,
    /// Keys made of the passphrase, with their salts: making one takes a while.
    derived: Mutex<Vec<(Vec<u8>, [u8; 32])>>,
}

impl Keys {
    /// Reads the files that the options name.
    ///
    /// # Errors
    /// Wrong usage: a file that cannot be read, a key of another length, both options.
    pub(super) fn open(context: &OpenContext<'_>) -> Result<Self> {
        let read = |name: &str| -> Result<Option<Vec<u8>>> {
            let Some(path) = context.settings.get(name) else { return Ok(None) };
            let bytes = context.storage.read_start(Path::new(path), MAX_FILE);
            let refuse = |error: Error| Error::misuse(format!("--{name} {path} cannot be read: {}", error.message()));
            bytes.map(Some).map_err(refuse)
        };
        Ok(Keys::from_options(read(KEY)?, read(PASSPHRASE)?, (KEY, PASSPHRASE))?.unwrap_or_default())
    }

    /// Of the contents of both files; `None` without any.
    ///
    /// # Errors
    /// Wrong usage: a key of another length, both options.
    pub(super) fn from_options(
        key: Option<Vec<u8>>,
        passphrase: Option<Vec<u8>>,
        names: (&str, &str),
    ) -> Result<Option<Self>> {
        let key = key.map(|bytes| key_of(&bytes, names.0)).transpose()?;
        let passphrase = passphrase.map(|bytes| {
            // The end of the line is not a part of it.
            let line = bytes.strip_suffix(b"\r\n").or_else(|| bytes.strip_suffix(b"\n"));
            line.unwrap_or(&bytes).to_vec()
        });
        if key.is_some() && passphrase.is_some() {
            return Err(Error::misuse(format!("--{} and --{} exclude each other", names.0, names.1)));
        }
        let is_given = key.is_some() || passphrase.is_some();
        Ok(is_given.then(|| Keys { key, passphrase, derived: Mutex::default() }))
    }

    /// Encrypts a content: nonce, ciphertext and tag.
    ///
    /// # Errors
    /// When there is no key, or the system gives no random numbers.
    pub(super) fn encrypt(&self, content: &[u8], associated: &[u8], salt: &[u8]) -> Result<Vec<u8>> {
        let key = self.packet_key(salt).ok_or_else(|| Error::misuse("there is no key to encrypt packets with"))?;
        let mut nonce = [0; NONCE_LEN];
        let failed = |error: getrandom::Error| Error::unsupported(format!("the system has no random numbers: {error}"));
        getrandom::fill(&mut nonce).map_err(failed)?;
        let payload = Payload { msg: content, aad: associated };
        let of = Nonce::<U12>::from(nonce);
        let sealed = match key.len() {
            16 => AesGcm::<Aes128, U12>::new_from_slice(&key).map(|cipher| cipher.encrypt(&of, payload)),
            24 => AesGcm::<Aes192, U12>::new_from_slice(&key).map(|cipher| cipher.encrypt(&of, payload)),
            _ => AesGcm::<Aes256, U12>::new_from_slice(&key).map(|cipher| cipher.encrypt(&of, payload)),
        };
        match sealed {
            Ok(Ok(sealed)) => Ok([&nonce[..], &sealed].concat()),
            _ => Err(Error::unsupported("a packet is too large to be encrypted")),
        }
    }

    /// Decrypts nonce, ciphertext and tag.
    pub(super) fn decrypt(&self, content: &[u8], associated: &[u8], salt: &[u8]) -> Result<Vec<u8>> {
        let Some(key) = self.packet_key(salt) else {
            let error = Error::unsupported("the packet is encrypted, and its events are locked");
            return Err(error.with_help(format!("give its key with --{KEY} FILE or --{PASSPHRASE} FILE")));
        };
        let Some((nonce, sealed)) = content.split_first_chunk::<NONCE_LEN>().filter(|(_, rest)| rest.len() >= TAG_LEN)
        else {
            let message = format!("{} bytes of encrypted content, less than its nonce and its tag", content.len());
            return Err(Error::malformed(message));
        };
        let nonce = Nonce::<U12>::from(*nonce);
        let payload = Payload { msg: sealed, aad: associated };
        let opened = match key.len() {
            16 => AesGcm::<Aes128, U12>::new_from_slice(&key).map(|cipher| cipher.decrypt(&nonce, payload)),
            24 => AesGcm::<Aes192, U12>::new_from_slice(&key).map(|cipher| cipher.decrypt(&nonce, payload)),
            _ => AesGcm::<Aes256, U12>::new_from_slice(&key).map(|cipher| cipher.decrypt(&nonce, payload)),
        };
        match opened {
            Ok(Ok(bytes)) => Ok(bytes),
            _ => {
                let message = "the packet does not decrypt: the key is not its key, or its bytes were changed";
                let error = Error::inconsistent(message);
                Err(error.with_help(format!("check what --{KEY} or --{PASSPHRASE} names; the packet is skipped")))
            }
        }
    }

    /// The key of the packets of a trace.
    fn packet_key(&self, salt: &[u8]) -> Option<Vec<u8>> {
        let derived = || Some(self.derive(self.passphrase.as_ref()?, salt).to_vec());
        self.key.clone().or_else(derived)
    }

    fn derive(&self, passphrase: &[u8], salt: &[u8]) -> [u8; 32] {
        let mut derived = self.derived.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, key)) = derived.iter().find(|(known, _)| known == salt) {
            return *key;
        }
        let mut full = b"CTF-RFC-AES".to_vec();
        full.extend_from_slice(salt);
        let mut key = [0; 32];
        pbkdf2::pbkdf2_hmac::<sha2::Sha256>(passphrase, &full, ROUNDS, &mut key);
        // Packets of other traces in a file would each bring a salt.
        if derived.len() < MAX_DERIVED {
            derived.push((salt.to_vec(), key));
        }
        key
    }
}

/// Salts whose keys are kept: a trace has one.
const MAX_DERIVED: usize = 16;

/// A key as hexadecimal digits, or as it is.
fn key_of(bytes: &[u8], name: &str) -> Result<Vec<u8>> {
    let digits: Vec<u8> = bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let is_hexadecimal = matches!(digits.len(), 32 | 48 | 64) && digits.iter().all(u8::is_ascii_hexdigit);
    if is_hexadecimal {
        let value = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
        return Ok(digits.chunks_exact(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect());
    }
    if matches!(bytes.len(), 16 | 24 | 32) {
        return Ok(bytes.to_vec());
    }
    let message = format!("--{name}: the file holds {} bytes, which are no key", bytes.len());
    Err(Error::misuse(message).with_help("a key is 16, 24 or 32 bytes, or twice as many hexadecimal digits"))
}
