//! Evaluates licence expressions, such as `(MIT OR Apache-2.0) AND Unicode-3.0`.

use std::{iter::Peekable, vec};

use anyhow::{Result, bail, ensure};

/// Whether the licences that are allowed suffice; `Apache-2.0 WITH LLVM-exception` is one licence.
pub(super) fn is_satisfied(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> Result<bool> {
    // Old manifests have a slash instead of OR.
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<String> = spaced.split_whitespace().map(str::to_owned).collect();
    let mut parser = Parser { words: words.into_iter().peekable(), is_allowed };
    let satisfied = parser.any()?;
    ensure!(parser.words.next().is_none(), "invalid licence expression `{expression}`");
    Ok(satisfied)
}

struct Parser<'a> {
    words: Peekable<vec::IntoIter<String>>,
    is_allowed: &'a dyn Fn(&str) -> bool,
}

impl Parser<'_> {
    /// Terms that OR joins.
    fn any(&mut self) -> Result<bool> {
        let mut satisfied = self.all()?;
        while self.takes("OR") {
            satisfied |= self.all()?;
        }
        Ok(satisfied)
    }

    /// Terms that AND joins.
    fn all(&mut self) -> Result<bool> {
        let mut satisfied = self.one()?;
        while self.takes("AND") {
            satisfied &= self.one()?;
        }
        Ok(satisfied)
    }

    fn one(&mut self) -> Result<bool> {
        if self.takes("(") {
            let satisfied = self.any()?;
            ensure!(self.takes(")"), "invalid licence expression: a parenthesis is not closed");
            return Ok(satisfied);
        }
        let Some(mut licence) = self.words.next() else { bail!("invalid licence expression: it ends too early") };
        if self.takes("WITH") {
            licence.push_str(" WITH ");
            licence.push_str(&self.words.next().unwrap_or_default());
        }
        Ok((self.is_allowed)(&licence))
    }

    fn takes(&mut self, word: &str) -> bool {
        self.words.next_if(|next| next == word).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::is_satisfied;

    #[test]
    fn expressions_are_satisfied_by_allowed_licences() {
        let is_allowed = |licence: &str| ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&licence);
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("GPL-3.0-only OR MIT", true),
            ("GPL-3.0-only/MIT", true),
            ("MIT AND GPL-3.0-only", false),
            ("MIT AND (GPL-3.0-only OR ISC)", true),
            ("GPL-3.0-only OR MIT AND ISC", true),
            ("(GPL-3.0-only OR MIT) AND Zlib", false),
            ("Apache-2.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
        ] {
            assert_eq!(is_satisfied(expression, &is_allowed).unwrap(), expected, "{expression}");
        }
        for invalid in ["", "(MIT", "MIT ISC", "MIT OR"] {
            assert!(is_satisfied(invalid, &is_allowed).is_err(), "{invalid}");
        }
    }
}
