//! Punctual's settings of a connection.

use sqlx::{PgConnection, postgres::PgConnectOptions};

use super::options::Options;

/// Planner settings of the hot statements. A plan made while a table was empty would scan the whole table for as long
/// as the plan is cached; every statement here has an index, and must use it whatever the statistics say.
const PLANNER: [(&str, &str); 6] = [
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
];

/// How soon the server detects that a client has vanished, whose session would use up one of its connections: it probes
/// silent connections.
const KEEPALIVE: [(&str, &str); 3] =
    [("tcp_keepalives_idle", "30"), ("tcp_keepalives_interval", "10"), ("tcp_keepalives_count", "3")];

/// The settings of a session, by name.
pub(crate) fn settings(options: &Options) -> Vec<(String, String)> {
    let own = [
        ("search_path".to_owned(), options.schema.clone()),
        ("statement_timeout".to_owned(), options.statement_timeout.as_millis().to_string()),
        // The locks of a process that is frozen within a transaction are released after this time.
        ("idle_in_transaction_session_timeout".to_owned(), options.statement_timeout.as_millis().to_string()),
        ("timezone".to_owned(), "UTC".to_owned()),
        // A statement that has waited for a lock must see the changes of the former holder, whatever the database's
        // default is.
        ("default_transaction_isolation".to_owned(), "read committed".to_owned()),
    ];
    let fixed = PLANNER.iter().chain(&KEEPALIVE).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    own.into_iter().chain(fixed).collect()
}

/// The parameters with which a connection is opened.
pub(crate) fn connect_options(options: &Options) -> PgConnectOptions {
    let connect = options.connect.clone().application_name("punctual");
    if options.transaction_pooler {
        // Settings and prepared statements may belong to another client a moment later, and poolers reject settings
        // that they do not know.
        return connect.statement_cache_capacity(0).extra_float_digits(None);
    }
    connect.options(settings(options))
}

/// Changes settings for the rest of a transaction.
pub(crate) async fn set(connection: &mut PgConnection, names: &[String], values: &[String]) -> sqlx::Result<()> {
    let set = sqlx::query("select set_config(n, v, true) from unnest($1::text[], $2::text[]) as s (n, v)");
    set.bind(names).bind(values).execute(connection).await.map(drop)
}
