//! Numbers of the names of functions, so that calls of the same name are found quickly.

use std::collections::HashMap;
use std::ops::Index;

use crate::follow::Follower;
use crate::text::entry;

/// Names that were met.
#[derive(Debug, Default)]
pub(crate) struct MetNames {
    texts: Vec<String>,
    by_text: HashMap<String, usize>,
    /// By symbol id: the number of the name, from 1.
    by_symbol: Vec<usize>,
}

impl MetNames {
    /// The number of a name.
    pub(crate) fn number(&mut self, name: &str) -> usize {
        if let Some(&at) = self.by_text.get(name) {
            return at;
        }
        self.by_text.insert(name.to_string(), self.texts.len());
        self.texts.push(name.to_string());
        self.texts.len() - 1
    }

    /// The number of the name of a symbol that was met.
    #[inline]
    pub(crate) fn known_number(&self, symbol: u32) -> Option<usize> {
        self.by_symbol.get(symbol as usize)?.checked_sub(1)
    }

    /// The number of the name of a symbol.
    #[inline]
    pub(crate) fn intern_symbol(&mut self, follower: &mut Follower<'_>, symbol: u32, address: u64) -> usize {
        self.known_number(symbol).unwrap_or_else(|| {
            let known = follower.known_symbol(symbol, address).symbol;
            let name = self.number(&known.name);
            if symbol > 0 && !known.name.starts_with(['<', '&']) {
                *entry(&mut self.by_symbol, symbol) = name + 1;
            }
            name
        })
    }
}

impl Index<usize> for MetNames {
    type Output = String;

    fn index(&self, number: usize) -> &String {
        &self.texts[number]
    }
}
