//! The texts of all statements, one file each.

use crate::ops::statements::every_statement;

macro_rules! texts {
    ($($name:ident $file:literal)*) => {
        /// Every statement with the name of its file.
        pub(crate) const ALL: &[(&str, &str)] = &[$(($file, include_str!(concat!("sql/", $file, ".sql")))),*];
    };
}

every_statement!(texts);
