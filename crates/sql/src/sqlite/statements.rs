//! The texts of all statements, from one file per noun, sent to SQLite unchanged.

use crate::{ops::statements::every_statement, sections::section};

macro_rules! texts {
    ($($file:literal { $($name:ident)* })*) => {
        /// Every statement with its name.
        pub(crate) const ALL: &[(&str, &str)] = &[$($((
            stringify!($name),
            section(include_str!(concat!("sql/", $file, ".sql")), stringify!($name)),
        ),)*)*];

        /// The files, each with the names of its statements.
        #[cfg(test)]
        const FILES: &[(&str, &[&str])] =
            &[$((include_str!(concat!("sql/", $file, ".sql")), &[$(stringify!($name)),*])),*];
    };
}

every_statement!(texts);

#[cfg(test)]
mod tests {
    #[test]
    fn every_section_is_a_statement() {
        super::FILES.iter().for_each(|(file, names)| crate::sections::assert_all_listed(file, names));
    }
}
