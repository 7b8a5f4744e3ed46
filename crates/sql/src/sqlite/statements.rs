//! The texts of all statements, from one file per noun, sent to SQLite unchanged.

use crate::{ops::statements::every_statement, sections::texts};

every_statement!(texts);

#[cfg(test)]
mod tests {
    #[test]
    fn every_section_is_a_statement() {
        super::FILES.iter().for_each(|(file, names)| crate::sections::assert_all_listed(file, names));
    }
}
